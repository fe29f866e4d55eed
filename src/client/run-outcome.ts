import { WorkflowFailedError } from '@temporalio/client'
import { ApplicationFailure, CancelledFailure, TerminatedFailure, TimeoutFailure } from '@temporalio/common'
import { type FailureCode, isFailureCode } from '../contracts/failure-codes.ts'

/** How a run ended. */
export type RunOutcome<T> =
  | { status: 'completed'; result: T }
  | { status: 'failed'; code: FailureCode; message: string }
  | { status: 'cancelled' }
  | { status: 'terminated'; message: string }
  | { status: 'timed-out'; message: string }

/** @throws every error that is not the end of a workflow: a lost connection says nothing about the run */
export async function toOutcome<T>(result: Promise<T>): Promise<RunOutcome<T>> {
  try {
    return { status: 'completed', result: await result }
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error
    return explain(error.cause)
  }
}

function explain(cause: Error | undefined): Exclude<RunOutcome<never>, { status: 'completed' }> {
  if (cause instanceof CancelledFailure) return { status: 'cancelled' }
  if (cause instanceof TerminatedFailure) return { status: 'terminated', message: cause.message }
  if (cause instanceof TimeoutFailure) return { status: 'timed-out', message: cause.message }
  for (let link: unknown = cause; link instanceof Error; link = link.cause) {
    if (link instanceof CancelledFailure) return { status: 'cancelled' }
    if (link instanceof ApplicationFailure && isFailureCode(link.type)) {
      return { status: 'failed', code: link.type, message: link.message }
    }
  }
  return { status: 'failed', code: 'Unexpected', message: cause?.message ?? 'The workflow failed without a reason' }
}
