import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity'
import { type LonghaulError, toLonghaulError } from '../contracts/errors.ts'

/** What a running activity may use: its cancellation signal, its attempt and a place to leave a typed heartbeat. */
export interface ActivityScope {
  signal: AbortSignal
  /** 1-based. */
  attempt: number
  /** Details of the last heartbeat of an earlier attempt, if any. */
  beat(details: unknown): void
}

/**
 * Wraps an activity: beats from a timer (an activity that does not beat never learns that it was cancelled or timed out)
 * and maps every error through one door. With no heartbeat timeout nothing beats.
 */
export function activity<Input, Result>(
  body: (input: Input, scope: ActivityScope) => Promise<Result>,
): (input: Input) => Promise<Result> {
  return async (input) => {
    const context = Context.current()
    let details: unknown = null
    const stop = startBeating(context, () => details)
    try {
      return await body(input, {
        signal: context.cancellationSignal,
        attempt: context.info.attempt,
        beat: (next) => {
          details = next
          context.heartbeat(next)
        },
      })
    } catch (error) {
      throw toFailure(error, context)
    } finally {
      stop()
    }
  }
}

/** A third of the timeout: two beats may be lost before the server gives up. */
function startBeating(context: Context, details: () => unknown): () => void {
  const timeoutMs = context.info.heartbeatTimeoutMs
  if (timeoutMs === undefined || timeoutMs === 0) return () => {}
  context.heartbeat(details())
  const timer = setInterval(() => context.heartbeat(details()), timeoutMs / 3)
  return () => clearInterval(timer)
}

/** The only place where an error becomes a Temporal failure: `type` = code, `details` = facts. */
function toFailure(error: unknown, context: Context): Error {
  if (error instanceof CancelledFailure || error instanceof ApplicationFailure) return error
  if (context.cancellationSignal.aborted) return new CancelledFailure('activity cancelled')
  const known: LonghaulError = toLonghaulError(error)
  return ApplicationFailure.create({
    type: known.code,
    message: known.message,
    nonRetryable: !known.retryable,
    details: [known.details],
    cause: known,
  })
}
