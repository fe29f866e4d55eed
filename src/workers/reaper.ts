import { setTimeout as sleep } from 'node:timers/promises'

import type { ReapReport } from '../adapters/docker/reaper/reap-leftovers.ts'
import { toLonghaulError } from '../contracts/errors.ts'

/** Twice within the minute that a leftover may outlive its lease. */
const INTERVAL_MS = 30_000

/** A frozen engine must not hold a sweep for ever; the next one tries again. */
const SWEEP_TIMEOUT_MS = 20_000

export interface ReaperOptions {
  sweep: (signal: AbortSignal) => Promise<ReapReport>
  log: ReaperLog
  /** @default 30_000 */
  intervalMs?: number
  /** @default 20_000 */
  timeoutMs?: number
}

export interface ReaperLog {
  info(message: string, facts: Record<string, unknown>): void
  warn(message: string, facts: Record<string, unknown>): void
}

export interface RunningReaper {
  /** Resolves when no request of the reaper is under way any more. */
  stop(): Promise<void>
}

/** Sweeps at once and then at intervals until it is stopped. An engine or server that is away costs the sweep, never the
 *  reaper; a trouble is told once, and its end too. */
export function startReaper(options: ReaperOptions): RunningReaper {
  const stopping = new AbortController()
  const done = sweepUntilStopped(options, stopping.signal)
  return {
    async stop() {
      stopping.abort()
      await done
    },
  }
}

async function sweepUntilStopped(options: ReaperOptions, stopping: AbortSignal): Promise<void> {
  const { sweep, log, intervalMs = INTERVAL_MS, timeoutMs = SWEEP_TIMEOUT_MS } = options
  let total = 0
  let trouble: string | null = null
  while (!stopping.aborted) {
    try {
      const report = await withinTime(sweep, { timeoutMs, stopping })
      total += report.removed.length
      if (report.removed.length > 0) log.info('removed leftovers', { removed: report.removed, total })
      trouble = tellOnce(trouble, report.failed.map(({ name, error }) => `${name}: ${error}`).join('; '), log)
    } catch (error) {
      if (stopping.aborted) break
      trouble = tellOnce(trouble, toLonghaulError(error).message, log)
    }
    await sleep(intervalMs, undefined, { signal: stopping }).catch(() => undefined)
  }
}

/** Some requests of an engine's client ignore the signal: then waiting ends, and the request dies with its socket. */
async function withinTime<T>(
  work: (signal: AbortSignal) => Promise<T>,
  { timeoutMs, stopping }: { timeoutMs: number; stopping: AbortSignal },
): Promise<T> {
  const late = AbortSignal.timeout(timeoutMs)
  const signal = AbortSignal.any([late, stopping])
  const { promise: ended, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(late.aborted ? new Error(`no end within ${timeoutMs} ms`) : signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  const running = work(signal)
  running.catch(() => undefined)
  try {
    return await Promise.race([running, ended])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function tellOnce(before: string | null, now: string, log: ReaperLog): string | null {
  if (now === '') {
    if (before !== null) log.info('leftovers can be removed again', {})
    return null
  }
  if (now !== before) log.warn('leftovers could not be removed', { reason: now })
  return now
}
