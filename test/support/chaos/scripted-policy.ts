/**
 * A policy server without a model, in its own process: the interface of the embedded server with scripted replies. On request it
 * misbehaves for its next answers. Environment: CHAOS_PORT, CHAOS_CONTROL, CHAOS_PROCESS (its name), CHAOS_STATE (a folder).
 */
import { appendFileSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { CANARY_FILE } from '../../../src/adapters/policy-server/canary.ts'
import { parseCanary } from '../../../src/adapters/policy-server/canary-rules.ts'
import { END_OF_TURN, textOfTokens, tokensOf } from './byte-tokens.ts'
import { isSelfCheck } from '../recording-proxy.ts'
import { type PolicyFault, visit } from './phases.ts'
import { type PolicyState, policyStateFile } from './policy-state.ts'
import { scriptedReply } from './scripted-replies.ts'

const {
  CHAOS_PORT: port = '0',
  CHAOS_CONTROL: controlUrl = '',
  CHAOS_PROCESS: name = 'policy',
  CHAOS_STATE: folder = '.',
} = process.env
const stateFile = policyStateFile(folder, name)

const state: PolicyState = existsSync(stateFile)
  ? (JSON.parse(readFileSync(stateFile, 'utf8')) as PolicyState)
  : { loaded: {}, otherWeightsUntilMs: 0 }

function save(): void {
  writeFileSync(`${stateFile}.tmp`, JSON.stringify(state))
  renameSync(`${stateFile}.tmp`, stateFile)
}

interface Completion {
  model: string
  prompt: number[]
  seed: number
  max_tokens: number
  prompt_logprobs?: number
}

let trouble: { kind: PolicyFault; left: number; ms: number } = { kind: 'none', left: 0, ms: 0 }

async function complete(asked: IncomingMessage, body: Completion, answer: ServerResponse): Promise<void> {
  if (body.prompt_logprobs !== undefined) return send(answer, 200, scored(body))
  const session = decodeURIComponent(String(asked.headers['x-session-id']))
  if (isSelfCheck(session)) return send(answer, 200, unbiased(body))
  const startedMs = Date.now()
  // The audit compares this moment with file times, which the kernel takes from a clock with a resolution of a few milliseconds.
  await sleep(15)
  const verdict = await visit(controlUrl, {
    phase: 'sampling',
    process: name,
    episode: session,
    container: null,
    key: null,
  })
  if (verdict.policy !== undefined)
    trouble = { kind: verdict.policy.kind, left: verdict.policy.times, ms: verdict.policy.ms }
  const kind = trouble.left > 0 ? trouble.kind : 'none'
  if (kind !== 'none') trouble.left -= 1
  const status = STATUS[kind] ?? 200
  if (kind === 'slow') await sleep(trouble.ms)
  const isOther = kind === 'other-weights' || Date.now() < state.otherWeightsUntilMs
  const isAnswered = kind === 'none' || kind === 'slow'
  const isWhole = kind === 'none' && !isOther
  const noted = {
    server: name,
    session,
    promptTokens: body.prompt.length,
    startedMs,
    endedMs: Date.now(),
    status: isAnswered ? 200 : null,
    trouble: isWhole ? null : isOther ? 'other-weights' : kind,
  }
  appendFileSync(join(folder, 'exchanges.jsonl'), `${JSON.stringify(noted)}\n`)
  if (status !== 200) {
    if (status === 429) answer.setHeader('retry-after', '1')
    const code = kind === 'no-credit' ? 'insufficient_quota' : null
    return send(answer, status, { error: { message: 'scripted trouble', code } })
  }
  if (kind === 'hang') {
    await sleep(trouble.ms)
    answer.destroy()
    return
  }
  const whole = sampled(body, session)
  if (kind === 'wrong-count') whole.choices[0]?.logprobs.token_logprobs.pop()
  if (isOther) whole.model = 'v999999-0badcafe'
  if (kind !== 'half-body') return send(answer, 200, whole)
  const text = JSON.stringify(whole)
  answer.writeHead(200, { 'content-type': 'application/json', 'content-length': String(text.length) })
  answer.write(text.slice(0, text.length / 2), () => answer.destroy())
}

const STATUS: Partial<Record<PolicyFault, number>> = { 'rate-limit': 429, 'no-credit': 429, 'internal-error': 500 }

/** The reply to publishing, which samples before any episode: one token repeated with certainty, consistent with `scored`. */
function unbiased({ model, prompt, max_tokens: room }: Completion) {
  const ids = Array.from({ length: room }, () => CERTAIN_TOKEN)
  const logprobs = { token_logprobs: ids.map(() => 0) }
  const choice = {
    text: textOfTokens(ids),
    finish_reason: 'length',
    token_ids: ids,
    prompt_token_ids: prompt,
    logprobs,
  }
  return { model, choices: [choice] }
}

const CERTAIN_TOKEN = 65

function sampled({ model, prompt, seed, max_tokens: room }: Completion, session: string) {
  const [, , , taskId = '', index = '0'] = session.split('/')
  const turn = textOfTokens(prompt).split('<|im_start|>assistant\n').length - 2
  const reply = [...tokensOf(scriptedReply({ taskId, index: Number(index), turn, seed })), END_OF_TURN]
  const isCut = reply.length > room
  const ids = reply.slice(0, room)
  const text = textOfTokens(isCut ? ids : ids.slice(0, -1))
  // Varied, so that a batch that mixes them up is detected.
  const logprobs = ids.map((id, place) => -((id + place) % 8) / 16)
  return {
    model,
    choices: [
      {
        text,
        finish_reason: isCut ? 'length' : 'stop',
        token_ids: ids,
        prompt_token_ids: prompt,
        logprobs: { token_logprobs: logprobs },
      },
    ],
  }
}

/** The trainer's own canary, read from the policy's directory: the answer of a server that loaded it correctly. */
function scored({ model, prompt }: Completion) {
  const path = join(state.loaded[model] ?? '', CANARY_FILE)
  const row = existsSync(path)
    ? parseCanary(readFileSync(path)).rows.find(({ ids }) => ids.join() === prompt.join())
    : null
  const known = new Map(row?.positions.map(({ index, newLogprob }) => [index, newLogprob]))
  const prompt_logprobs = prompt.map((id, place) =>
    place === 0 ? null : { [id]: { logprob: known.get(place) ?? (id === CERTAIN_TOKEN ? 0 : -1) } },
  )
  return { model, choices: [{ text: '', prompt_logprobs }] }
}

function send(answer: ServerResponse, status: number, body: object): void {
  answer.writeHead(status, { 'content-type': 'application/json' })
  answer.end(JSON.stringify(body))
}

async function serve(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of asked) chunks.push(chunk as Buffer)
  const body = (chunks.length === 0 ? {} : JSON.parse(Buffer.concat(chunks).toString())) as Record<string, unknown>
  switch (asked.url) {
    case '/health':
      return send(answer, 200, { status: 'ok' })
    case '/v1/models':
      return send(answer, 200, { data: Object.keys(state.loaded).map((id) => ({ id })) })
    case '/tokenize':
      return send(answer, 200, { tokens: tokensOf(String(body['prompt'])) })
    case '/v1/reload':
      state.loaded[String(body['version'])] = String(body['path'])
      save()
      return send(answer, 200, { version: body['version'] })
    case '/v1/release':
      return send(answer, 200, {})
    case '/v1/completions':
      return complete(asked, body as unknown as Completion, answer)
    default:
      return send(answer, 404, { detail: 'Not Found' })
  }
}

const server = createServer((asked, answer) => {
  void serve(asked, answer).catch((error: unknown) => send(answer, 500, { error: { message: String(error) } }))
})
server.requestTimeout = 0
server.listen(Number(port), '127.0.0.1')
