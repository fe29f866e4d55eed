import {
  ActivityFailure,
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  ChildWorkflowFailure,
  ContinueAsNew,
  isCancellation,
  TerminatedFailure,
  TimeoutFailure,
} from '@temporalio/workflow'
import { assertNever } from '../contracts/errors.ts'
import type { ActivityHeartbeat } from '../contracts/waits.types.ts'
import { type FailureCode, isFailureCode } from '../contracts/failure-codes.ts'
import { answerToFailure } from '../domain/failure-answers.ts'

/** The reaction of an episode to a failure. */
export type FailureDecision =
  | { kind: 'cancelled' }
  /** The sandbox or its host is gone, so a new one is requested. */
  | { kind: 're-place'; code: FailureCode }
  /** The episode is lost, but the run continues. */
  | { kind: 'infra'; code: FailureCode }
  /** The user's configuration is wrong: every other episode would fail in the same way. */
  | { kind: 'fail-run'; code: FailureCode; message: string }

/** Classes and fields of errors are lost in serialisation. The code in `ApplicationFailure.type` survives. */
export function decideAfter(error: unknown): FailureDecision {
  if (isCancellation(error)) return { kind: 'cancelled' }
  const code = failureCode(error)
  // A shared queue has no worker, so every other episode would wait as long.
  if (code === 'Worker.Missing' && !isOfHost(error)) return { kind: 'fail-run', code, message: innermostMessage(error) }
  if (isHostLoss(error) || isHeldAtLastAttempt(error)) return { kind: 're-place', code: 'Sandbox.Lost' }
  const answer = answerToFailure(code)
  switch (answer.kind) {
    case 're-place':
      return { kind: 're-place', code }
    case 'fail-run':
      return { kind: 'fail-run', code, message: innermostMessage(error) }
    case 'retry':
    case 'end':
      // The useful attempts are exhausted. A failure caused by the policy itself is handled inside the activity.
      return { kind: 'infra', code }
    default:
      return assertNever(answer)
  }
}

export function failureCode(error: unknown): FailureCode {
  for (const cause of causes(error)) {
    if (cause instanceof ApplicationFailure && isFailureCode(cause.type)) return cause.type
    if (isNotStarted(cause)) return 'Worker.Missing'
    if (isHeldAtLastAttempt(cause)) return 'Run.EndedByHand'
    if (endOfChild(cause) !== null) return 'Run.EndedByHand'
    if (cause instanceof TimeoutFailure) return lastFailing(cause)?.code ?? 'Worker.Stalled'
  }
  return 'Unexpected'
}

/** The failure of earlier attempts that a timed-out activity reported in its last heartbeat. */
function lastFailing({ timeoutType, lastHeartbeatDetails }: TimeoutFailure): ActivityHeartbeat['failing'] {
  // An attempt that exceeded its own limit did not fail like an earlier one.
  if (timeoutType !== 'SCHEDULE_TO_CLOSE') return null
  return (lastHeartbeatDetails as Partial<ActivityHeartbeat> | undefined)?.failing ?? null
}

/** A failure that ends a run, with a stable code and without retries. */
export function failRun(code: FailureCode, message: string): ApplicationFailure {
  return ApplicationFailure.create({ type: code, message, nonRetryable: true })
}

/**
 * How a person ended a child alone; null for every other failure. What its parent cancels, for itself or on a cancel of the run, is no
 * such end.
 */
export function endByHand(error: unknown): 'terminated' | 'cancelled' | null {
  return CancellationScope.current().consideredCancelled ? null : (endOfChild(error)?.how ?? null)
}

/** Re-throws an error so that the parent, the UI and the client see one code and one message instead of a chain of wrappers. */
export function withCode(error: unknown): Error {
  // Continuing as new is thrown too and is not a failure.
  if ((isCancellation(error) && endByHand(error) === null) || error instanceof ContinueAsNew) return error as Error
  const code = failureCode(error)
  // A run that is cancelled ends so, also where a person has terminated one of its workflows meanwhile.
  if (code === 'Run.EndedByHand' && CancellationScope.current().consideredCancelled) {
    return new CancelledFailure(innermostMessage(error))
  }
  const failure = failRun(code, innermostMessage(error))
  // The message of a configuration error is complete, and the stack of the check would not help.
  if (failure.type?.startsWith('Config.') === true) failure.stack = ''
  return failure
}

export function innermostMessage(error: unknown): string {
  let message = error instanceof Error ? error.message : String(error)
  for (const cause of causes(error)) {
    if (isNotStarted(cause))
      return `No worker started the activity ${cause.activityType} within its schedule-to-start limit`
    if (cause instanceof ActivityFailure && cause.cause instanceof TimeoutFailure)
      return timedOutMessage(cause, cause.cause)
    if (isHeldAtLastAttempt(cause))
      return `The activity ${cause.activityType} was paused or reset by hand during its last attempt; start the run again under its name, and it continues from its records`
    // Temporal's message names no workflow. Operators look for the one that was ended, not for its parents.
    const ended = endOfChild(cause)
    if (ended !== null)
      return `The workflow ${ended.workflowId} was ${ended.how}; start the run again under its name, and it continues from its records`
    if (cause instanceof Error && cause.message) message = cause.message
  }
  return message
}

/** Temporal's own messages name neither the activity nor the reason for the wait. */
function timedOutMessage({ activityType }: ActivityFailure, timeout: TimeoutFailure): string {
  switch (timeout.timeoutType) {
    case 'HEARTBEAT':
      return `Every worker that ran the activity ${activityType} stopped sending heartbeats`
    case 'START_TO_CLOSE':
      return `An attempt at the activity ${activityType} did not end within its limit, although each of its parts has its own limit`
    default:
      return lastFailing(timeout)?.message ?? `The activity ${activityType} exceeded its total time limit`
  }
}

function endOfChild(error: unknown): { workflowId: string; how: 'terminated' | 'cancelled' } | null {
  if (!(error instanceof ChildWorkflowFailure)) return null
  const workflowId = String(error.execution.workflowId)
  if (error.cause instanceof TerminatedFailure) return { workflowId, how: 'terminated' }
  return error.cause instanceof CancelledFailure ? { workflowId, how: 'cancelled' } : null
}

/** No worker started the activity in time. */
function isNotStarted(error: unknown): error is ActivityFailure {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    error.cause.timeoutType === 'SCHEDULE_TO_START'
  )
}

/** The SDK ends an attempt that a person pauses or resets as failed, and each such end uses up an attempt. */
const HELD_BY_HAND: readonly unknown[] = ['ActivityPause', 'ActivityReset']

function isHeldAtLastAttempt(error: unknown): error is ActivityFailure {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof ApplicationFailure &&
    HELD_BY_HAND.includes(error.cause.type)
  )
}

/** Activities on the queue of one host, for which a missing worker means that the host is gone. */
const HOST_ACTIVITIES: readonly string[] = ['advanceEpisode', 'captureSubmission', 'closeSandbox', 'attendHost']

function isOfHost(error: unknown): boolean {
  return error instanceof ActivityFailure && HOST_ACTIVITIES.includes(error.activityType)
}

function isHostLoss(error: unknown): boolean {
  return (
    error instanceof ActivityFailure &&
    error.cause instanceof TimeoutFailure &&
    (error.cause.timeoutType === 'SCHEDULE_TO_START' || error.cause.timeoutType === 'HEARTBEAT')
  )
}

function* causes(error: unknown): Generator<unknown> {
  let current: unknown = error
  while (current !== undefined && current !== null) {
    yield current
    const wraps =
      current instanceof ActivityFailure ||
      current instanceof ChildWorkflowFailure ||
      current instanceof ApplicationFailure ||
      current instanceof TimeoutFailure
    current = wraps ? (current as Error).cause : undefined
  }
}
