/** Runs an activity without a server, in the SDK's own test environment. */
import { ActivityCancellationDetails } from '@temporalio/common'
import { MockActivityEnvironment } from '@temporalio/testing'
import { DefaultLogger } from '@temporalio/worker'

export interface InActivityOptions {
  /** @default 1 */
  attempt?: number
  signal?: AbortSignal
  /** Whether the signal stands for the end of the worker instead of a cancellation. @default false */
  isWorkerShutdown?: boolean
  /** @default 60_000 */
  heartbeatTimeoutMs?: number
  /** How long after its activity the attempt was scheduled. @default 0 */
  afterMs?: number
  /** The last heartbeat of the previous attempt. */
  heartbeatDetails?: unknown
  onHeartbeat?: (details: unknown) => void
}

/** Runs `work` as an attempt of an activity that is scheduled now; the signal cancels it, as the server does. */
export async function inActivity<T>(work: () => Promise<T>, options: InActivityOptions = {}): Promise<T> {
  const {
    attempt = 1,
    afterMs = 0,
    signal,
    isWorkerShutdown = false,
    heartbeatTimeoutMs = 60_000,
    heartbeatDetails,
    onHeartbeat,
  } = options
  const nowMs = Date.now()
  const info = {
    attempt,
    scheduledTimestampMs: nowMs - afterMs,
    currentAttemptScheduledTimestampMs: nowMs,
    startToCloseTimeoutMs: 3_600_000,
    scheduleToCloseTimeoutMs: 3_600_000,
    heartbeatTimeoutMs,
    heartbeatDetails,
  }
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') })
  if (onHeartbeat !== undefined) environment.on('heartbeat', onHeartbeat)
  const cancel = (): void =>
    isWorkerShutdown
      ? environment.cancel('WORKER_SHUTDOWN', new ActivityCancellationDetails({ workerShutdown: true }))
      : environment.cancel()
  if (signal?.aborted) cancel()
  signal?.addEventListener('abort', cancel)
  try {
    return await environment.run(work)
  } finally {
    signal?.removeEventListener('abort', cancel)
  }
}
