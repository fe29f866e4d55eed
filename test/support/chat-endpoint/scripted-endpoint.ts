/** A chat endpoint over real HTTP with scripted replies and failures. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { ChatMessage } from '../../../src/contracts/policy.types.ts'
import { closeServer, listenOnLoopback } from '../loopback.ts'

export interface SeenRequest {
  path: string
  headers: IncomingMessage['headers']
  body: Record<string, unknown>
}

/** Answers one request. */
export type Answer = (request: SeenRequest, response: ServerResponse) => void

export interface ScriptedEndpoint {
  /** Base address, with `/v1`. */
  url: string
  seen: SeenRequest[]
  close(): Promise<void>
}

/**
 * @param answerTo called for each request to `/v1/chat/completions`, in order of arrival; all other paths except `/v1/models` are 404
 * @param models the answer to `/v1/models`
 */
export async function startScriptedEndpoint(
  answerTo: (request: SeenRequest, number: number) => Answer,
  models: object[] = [],
): Promise<ScriptedEndpoint> {
  const seen: SeenRequest[] = []
  const server = createServer((incoming, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const path = incoming.url ?? ''
      const text = Buffer.concat(chunks).toString()
      const body = text === '' ? {} : (JSON.parse(text) as Record<string, unknown>)
      const request = { path, headers: incoming.headers, body }
      if (path === '/v1/models') return json(200, { object: 'list', data: models })(request, response)
      if (path !== '/v1/chat/completions') return json(404, { detail: 'Not Found' })(request, response)
      seen.push(request)
      answerTo(request, seen.length)(request, response)
    })
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}/v1`,
    seen,
    close: () => closeServer(server),
  }
}

export function json(status: number, body: unknown, headers: Record<string, string> = {}): Answer {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return (_request, response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text)
}

/** Accepts the request and never answers. */
export const hang: Answer = () => undefined

/** A finished reply in OpenAI's format; `changes` override fields of the body. */
export function says(content: string | null, changes: Record<string, unknown> = {}): Answer {
  return (request, response) =>
    json(200, {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: request.body['model'],
      choices: [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 100, completion_tokens: 10, prompt_tokens_details: { cached_tokens: 60 } },
      ...changes,
    })(request, response)
}

/** Server-sent events, one for each text; afterwards the stream ends, is cut (`cut`) or stays open (`hang`). */
export function streams(events: readonly (object | string)[], then: 'end' | 'cut' | 'hang' = 'end'): Answer {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
    for (const event of events) response.write(`data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
    if (then === 'end') response.end()
    if (then === 'cut') setTimeout(() => response.destroy(), 20)
  }
}

export function runs(command: string, changes: Record<string, unknown> = {}): Answer {
  return says(`Next:\n\`\`\`command\n${command}\n\`\`\``, changes)
}

export function messagesOf({ body }: SeenRequest): ChatMessage[] {
  return body['messages'] as ChatMessage[]
}
