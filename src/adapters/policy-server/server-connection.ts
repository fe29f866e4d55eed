import { LonghaulError } from '../../contracts/errors.ts'
import { traceHeaders } from '../../platform/current-trace.ts'
import { createTransport, HttpFault } from './openai-transport.ts'
import { retryUntilDone, type TryResult } from './retry.ts'
import { decideOnError } from './server-errors.ts'

export interface PolicyServerTimeouts {
  /** One HTTP exchange that samples, scores or loads. @default 600000: a long sample on a busy server */
  requestMs?: number
  /** No new try starts after this long; the caller's own retries take over. @default 300000 */
  giveUpAfterMs?: number
}

export interface ServerConnectionOptions {
  url: string
  timeouts?: PolicyServerTimeouts
  /** Sent as a bearer token. */
  apiKey?: string | undefined
  /** @default as the transport has it */
  maxAnswerBytes?: number
  /** Told of each failed try that is followed by another. */
  onTransientError?: ((error: LonghaulError) => void) | undefined
  /** Requests carry the trace of their activity (`traceparent`): for servers of the operator's own. @default false */
  sendsTrace?: boolean
}

export interface ServerAsk<T> {
  path: string
  /** Absent: GET. */
  body?: unknown
  /** Policy that the request names; null where it names none. */
  policy: string | null
  headers?: Record<string, string>
  /** @default the connection's `requestMs` */
  timeoutMs?: number
  signal: AbortSignal
  /** Reads a 200 answer. @throws LonghaulError; `Model.BadResponse` is tried again */
  parse: (answer: unknown) => T
}

export type ServerConnection = <T>(ask: ServerAsk<T>) => Promise<T>

/**
 * Requests to one policy server. Every one may be repeated: samples are a function of their seed, loads and releases are
 * idempotent. @throws LonghaulError `Config.Invalid` for an address that is none
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

  return ({ path, body, policy, headers = {}, timeoutMs = requestMs, signal, parse }) => {
    const target = `${base.origin}${base.pathname.replace(/\/$/, '')}${path}`
    const sent = sendsTrace ? { ...traceHeaders(), ...headers } : headers
    return retryUntilDone({
      giveUpAfterMs,
      signal,
      onAgain: onTransientError,
      async attempt(tries) {
        const answer = await exchange({ path, headers: sent, body, timeoutMs, signal }).catch((error: unknown) => {
          if (error instanceof HttpFault) return error
          throw error
        })
        if (answer instanceof HttpFault) return { kind: 'again', error: unreachable(answer, target), afterMs: null }
        return 'error' in answer ? decideOnError(answer, { url: target, policy }, tries) : read(answer, parse, tries)
      },
    })
  }
}

/** The same seed gives the same answer: what is wrong four times will stay wrong. */
const MOST_BAD_ANSWERS = 4

function read<T>(answer: { text: string }, parse: (value: unknown) => T, tries: number): TryResult<T> {
  try {
    return { kind: 'done', value: parse(JSON.parse(answer.text)) }
  } catch (error) {
    const known = error instanceof LonghaulError ? error : notJson(answer, error)
    if (known.code !== 'Model.BadResponse' || tries >= MOST_BAD_ANSWERS) return { kind: 'failed', error: known }
    return { kind: 'again', error: known, afterMs: null }
  }
}

function notJson({ text }: { text: string }, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Model.BadResponse',
    message: 'Expected JSON from the policy server',
    details: { characters: text.length, start: text.slice(0, 80) },
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
