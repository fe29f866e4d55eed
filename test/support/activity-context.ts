/** An activity without a server: the SDK's own context around it, as a worker would make it. */
import { asyncLocalStorage, Context, type Info } from '@temporalio/activity'
import { noopMetricMeter } from '@temporalio/common'
import { DefaultLogger } from '@temporalio/worker'

export interface InActivityOptions {
  /** @default 1 */
  attempt?: number
  signal?: AbortSignal
  /** @default 60_000 */
  heartbeatTimeoutMs?: number
  onHeartbeat?: () => void
}

/** Runs `work` as an attempt of an activity that is scheduled now. */
export function inActivity<T>(
  work: () => Promise<T>,
  {
    attempt = 1,
    signal = new AbortController().signal,
    heartbeatTimeoutMs = 60_000,
    onHeartbeat = () => undefined,
  }: InActivityOptions = {},
): Promise<T> {
  const info = { attempt, scheduledTimestampMs: Date.now(), heartbeatTimeoutMs } as Info
  const cancelled = new Promise<never>((_resolve, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason)),
  )
  cancelled.catch(() => undefined)
  const context = new Context(
    info,
    cancelled,
    signal,
    onHeartbeat,
    undefined,
    new DefaultLogger('ERROR'),
    noopMetricMeter,
    { details: null } as never,
  )
  return asyncLocalStorage.run(context, work)
}
