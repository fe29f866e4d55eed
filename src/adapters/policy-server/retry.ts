import { setTimeout as sleep } from 'node:timers/promises'
import type { LonghaulError } from '../../contracts/errors.ts'

/** Outcome of one try: an answer, an error for the caller, or a reason to try again. */
export type TryResult<T> =
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
export async function retryUntilDone<T>({
  attempt,
  giveUpAfterMs,
  signal,
  onAgain,
  random,
}: RetryOptions<T>): Promise<T> {
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
