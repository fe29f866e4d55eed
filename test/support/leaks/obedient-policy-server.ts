import { createServer } from 'node:http'
import { closeServer, listenOnLoopback } from '../loopback.ts'

/** Turns before the submission; each appends a line, so that there is a patch to capture and to grade. */
const TURNS = 2
const MARK = 'leak-turn'

export interface PolicyServer {
  url: string
  close(): Promise<void>
}

/** A policy server without a model: one token per byte, two commands per episode, then `submit`. */
export async function startObedientPolicyServer(): Promise<PolicyServer> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
      response.setHeader('content-type', 'application/json')
      response.end(
        JSON.stringify(request.url === '/tokenize' ? { tokens: bytesOf(String(body['prompt'])) } : reply(body)),
      )
    })
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}`,
    close: () => closeServer(server),
  }
}

function reply({ model, prompt }: Record<string, unknown>) {
  const promptIds = prompt as number[]
  const done = Buffer.from(promptIds).toString('latin1').split(MARK).length - 1
  const command = done < TURNS ? `echo ${MARK} >> new.txt` : 'submit'
  const text = `\`\`\`command\n${command}\n\`\`\``
  const ids = bytesOf(text)
  const logprobs = { token_logprobs: ids.map(() => -0.5) }
  return {
    model,
    choices: [{ text, finish_reason: 'stop', token_ids: ids, prompt_token_ids: promptIds, logprobs }],
  }
}

function bytesOf(text: string): number[] {
  return [...Buffer.from(text)]
}
