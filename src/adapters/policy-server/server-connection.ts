import { setTimeout as sleep } from 'node:timers/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import { traceHeaders } from '../../platform/current-trace.ts'
import { type EventFold, HttpFault, type HttpRefusal, createTransport, spell } from './openai-transport.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import { isObject } from '../../domain/shapes.ts'

export interface PolicyServerTimeouts {
  /** Limit of one HTTP exchange that samples, scores or loads. @default 600000, enough for a long sample on a busy server */
  requestMs?: number
  /** No new try starts after this time; the caller's own retries take over. @default 300000 */
  giveUpAfterMs?: number
}

export interface ServerConnectionOptions {
  url: string
  timeouts?: PolicyServerTimeouts
  /** Sent as a bearer token. */
  apiKey?: string | undefined
  /** @default the transport's default */
  maxAnswerBytes?: number
  /** Called after each failed attempt that will be retried. */
  onTransientError?: ((error: LonghaulError) => void) | undefined
  /** Sends the activity's trace context (`traceparent`), for servers that the operator runs. @default false */
  sendsTrace?: boolean
}

export interface ServerAsk<T> {
  path: string
  /** Absent for GET. */
  body?: unknown
  /** Policy that the request names; null if it names none. */
  policy: string | null
  headers?: Record<string, string>
  /** The body requests a stream. `parse` receives what the fold makes of its events, or the answer of a server that sends no stream. */
  fold?: () => EventFold
  /** Largest 200 answer that is read. @default the connection's `maxAnswerBytes` */
  maxAnswerBytes?: number
  /** @default the connection's `requestMs` */
  timeoutMs?: number
  signal: AbortSignal
  /** Reads a 200 answer. @throws LonghaulError; `Model.BadResponse` is retried
   *  @param tookMs duration of the exchange, without failed tries and the waits before them */
  parse: (answer: unknown, tookMs: number) => T
}

export type ServerConnection = <T>(ask: ServerAsk<T>) => Promise<T>

/**
 * Sends requests to one policy server. Every request may be repeated: samples are a function of their seed, loads and releases are
 * idempotent. @throws LonghaulError `Config.Invalid` for a malformed address
 */
export function connectToServer({
  url,
  timeouts = {},
  apiKey,
  maxAnswerBytes,
  onTransientError,
  sendsTrace = false,
}: ServerConnectionOptions): ServerConnection {
  const { requestMs = 600_000, giveUpAfterMs = 300_000 } = timeouts
  const base = parseBase(url)
  const exchange = createTransport({ base, apiKey, maxAnswerBytes })

  return ({ path, body, policy, headers = {}, fold, maxAnswerBytes: most, timeoutMs = requestMs, signal, parse }) => {
    const target = `${base.origin}${base.pathname.replace(/\/$/, '')}${path}`
    const sent = sendsTrace ? { ...traceHeaders(), ...headers } : headers
    return retryUntilDone({
      giveUpAfterMs,
      signal,
      onAgain: onTransientError,
      async attempt(tries) {
        const sentMs = performance.now()
        const answer = await exchange({
          path,
          headers: sent,
          body,
          fold,
          maxAnswerBytes: most,
          timeoutMs,
          signal,
        }).catch((error: unknown) => {
          if (error instanceof HttpFault) return error
          throw error
        })
        const tookMs = Math.round(performance.now() - sentMs)
        if (answer instanceof HttpFault) return { kind: 'again', error: unreachable(answer, target), afterMs: null }
        return 'error' in answer
          ? decideOnError(answer, { url: target, policy }, tries)
          : read(answer, (value) => parse(value, tookMs), { tries, url: target })
      },
    })
  }
}

/** The same seed gives the same answer, so an answer that is invalid four times stays invalid. */
const MOST_BAD_ANSWERS = 4

function read<T>(
  answer: { text: string } | { fold: EventFold },
  parse: (value: unknown) => T,
  { tries, url }: { tries: number; url: string },
): TryResult<T> {
  try {
    return { kind: 'done', value: parse('fold' in answer ? answer.fold.end() : JSON.parse(answer.text)) }
  } catch (error) {
    const known = error instanceof LonghaulError ? error : notJson('text' in answer ? answer.text : '', url, error)
    if (known.code !== 'Model.BadResponse' || tries >= MOST_BAD_ANSWERS) return { kind: 'failed', error: known }
    return { kind: 'again', error: known, afterMs: null }
  }
}

function notJson(text: string, url: string, cause: unknown): LonghaulError {
  const isPage = text.trimStart().startsWith('<')
  return new LonghaulError({
    code: 'Model.BadResponse',
    message: `Expected JSON from the policy server${isPage ? ', got a page of another server: correct its address, policyServer.url or LONGHAUL_POLICY_URL, or check for a proxy in between' : ''}`,
    details: { url, characters: text.length, start: text.slice(0, 80) },
    cause,
  })
}

function unreachable(fault: HttpFault, url: string): LonghaulError {
  return new LonghaulError({
    code: 'Model.Unavailable',
    message: `Expected an answer from the policy server: ${fault.message}`,
    details: { url },
    cause: fault,
  })
}

function parseBase(url: string): URL {
  const base = URL.canParse(url) ? new URL(url) : null
  if (base !== null && (base.protocol === 'http:' || base.protocol === 'https:')) return base
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected policyServer.url (or LONGHAUL_POLICY_URL) to be an http(s) address',
    details: { url },
  })
}

export interface Route {
  url: string
  /** Policy that the request names; null if it names none. */
  policy: string | null
}

/** A bug in the server answers 500 forever. A restart answers 502, 503 or nothing, and only a restart is worth waiting for. */
const MOST_INTERNAL_ERRORS = 4

/** Maps a status other than 200 to a decision, most specific reason first. */
export function decideOnError(refusal: HttpRefusal, route: Route, tries: number): TryResult<never> {
  const { status } = refusal
  const fault = readFault(refusal)
  // Credit does not return by waiting.
  if (status === 429 && fault.code === 'insufficient_quota') {
    return failed('Config.Invalid', 'an account with credit left')
  }
  if (status === 429) return again('Model.RateLimited', 'the policy server to accept a request, but it is rate limited')
  if (status === 502 || status === 503 || status === 504) {
    return again('Model.Unavailable', 'the policy server to be ready')
  }
  if (status >= 500) {
    const expected = 'the policy server to answer, but it reported an internal error'
    return tries < MOST_INTERNAL_ERRORS ? again('Model.Unavailable', expected) : failed('Model.Unavailable', expected)
  }
  if (status >= 300 && status < 400) {
    const target = (refusal.location ?? 'an unnamed address').slice(0, 200)
    return failed('Config.Invalid', `the policy server's own address, but this one redirects to ${target}`)
  }
  if (isContextOverflow(fault)) return failed('Model.ContextOverflow', 'prompt and reply to fit into the context')
  if (status === 409 && fault.code === 'busy') return failed('Model.Busy', 'a free place on the policy server')
  if (status === 409) return failed('Artifact.Conflict', 'one set of weights under one version')
  if (status === 404 && route.policy !== null && !fault.isRouteMissing) {
    return failed('Model.NotServed', 'the policy to be served')
  }
  if (status === 422 && fault.code === 'bad_policy_directory') {
    return failed('Artifact.Corrupt', 'a policy directory that can be loaded')
  }
  if (status === 401 || status === 403) {
    const variables =
      'LONGHAUL_POLICY_API_KEY, or for a chat endpoint the variable that policyServer.chat.apiKeyVariable names'
    return failed('Config.Invalid', `the policy server to accept the key of this worker (${variables})`)
  }
  if (status === 404 && fault.isRouteMissing) {
    return failed('Config.Invalid', 'a server that has this route; correct policyServer.url or policyServer.kind')
  }
  return failed('Config.Invalid', 'the policy server to accept the request')

  function failed(code: FailureCode, expected: string): TryResult<never> {
    return { kind: 'failed', error: errorOf(code, expected) }
  }
  function again(code: FailureCode, expected: string): TryResult<never> {
    return { kind: 'again', error: errorOf(code, expected), afterMs: parseRetryAfter(refusal.retryAfter, Date.now()) }
  }
  function errorOf(code: FailureCode, expected: string): LonghaulError {
    return new LonghaulError({
      code,
      message: `Expected ${expected}: ${fault.message}`,
      details: { status, url: route.url, policy: route.policy },
    })
  }
}

interface Fault {
  code: string | null
  message: string
  /** A 404 for the path and not for the policy: the server is of another kind or has another base address. */
  isRouteMissing: boolean
}

/** Reads `{message, code}` (OpenAI, and older vLLM) or `{"detail": …}` (the web framework). */
function readFault({ error, text }: HttpRefusal): Fault {
  const told = isObject(error) ? error : {}
  const code = [told['code'], told['type']].find((word) => typeof word === 'string') ?? null
  const said = told['message'] ?? told['detail'] ?? text
  const message = (typeof said === 'string' ? said : spell(said)).slice(0, 500)
  return { code, message, isRouteMissing: NO_ROUTE.test(message.trim()) }
}

/** The wording of FastAPI (vLLM, SGLang), llama.cpp and servers in Go (Ollama). */
const NO_ROUTE = /^(?:file |404 page )?not found$/i

/** Recognises the wording of OpenAI, vLLM, SGLang, Anthropic, llama.cpp and Ollama. */
function isContextOverflow({ code, message }: Fault): boolean {
  return (
    code === 'context_length_exceeded' ||
    code === 'exceed_context_size_error' ||
    /maximum context length|longer than the (?:maximum )?model['’]?s? (?:maximum )?(?:context )?length|prompt is too long|exceeds? (?:the )?(?:available )?context (?:size|length|limit|window)/i.test(
      message,
    )
  )
}

/** Outcome of one try: an answer, an error for the caller, or a reason to try again. */
type TryResult<T> =
  | { kind: 'done'; value: T }
  | { kind: 'failed'; error: Error }
  | { kind: 'again'; error: LonghaulError; afterMs: number | null }

export interface RetryOptions<T> {
  attempt: (tries: number) => Promise<TryResult<T>>
  /** No new try starts after this time; the last error is thrown instead. */
  giveUpAfterMs: number
  signal: AbortSignal
  /** Called before each new attempt with the error of the last one. */
  onAgain?: ((error: LonghaulError) => void) | undefined
  /** Uniform in [0, 1). @default Math.random */
  random?: () => number
}

const FIRST_DELAY_MS = 250
const LONGEST_DELAY_MS = 10_000
/** Upper bound on `Retry-After`, because the caller has a deadline. */
const LONGEST_RETRY_AFTER_MS = 60_000

/** Retries with exponential back-off and full jitter, so that sixty episodes do not return in step after a restart. */
async function retryUntilDone<T>({ attempt, giveUpAfterMs, signal, onAgain, random }: RetryOptions<T>): Promise<T> {
  const startedAt = Date.now()
  for (let tries = 1; ; tries++) {
    signal.throwIfAborted()
    const result = await attempt(tries)
    if (result.kind === 'done') return result.value
    if (result.kind === 'failed') throw result.error
    onAgain?.(result.error)
    const delayMs = delayBefore(tries + 1, result.afterMs, random ?? Math.random)
    if (Date.now() - startedAt + delayMs > giveUpAfterMs) throw result.error
    await pause(delayMs, signal)
  }
}

export function delayBefore(tries: number, afterMs: number | null, random: () => number): number {
  const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** (tries - 2))
  const jittered = ceiling * (0.5 + random() / 2)
  if (afterMs === null) return jittered
  // Waits at least `Retry-After`, plus up to a tenth of it, because the server sends all clients the same value.
  return Math.min(LONGEST_RETRY_AFTER_MS, afterMs) * (1 + random() / 10)
}

/** Parses `Retry-After`: seconds or an HTTP date. Returns null for anything else and for times in the past. */
export function parseRetryAfter(header: string | null, nowMs: number): number | null {
  if (header === null || header.trim() === '') return null
  const seconds = Number(header)
  const ms = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(header) - nowMs
  return Number.isFinite(ms) && ms >= 0 ? ms : null
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await sleep(ms, undefined, { signal })
  } catch (error) {
    // The timer wraps the reason of the abort, but callers compare the reason itself.
    if (signal.aborted) throw signal.reason
    throw error
  }
}
