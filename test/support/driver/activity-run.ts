import {
  ApplicationFailure,
  ensureApplicationFailure,
  RetryState,
  TemporalFailure,
  TimeoutType,
} from '@temporalio/common'
import type { coresdk } from '@temporalio/proto'
import { type ActivityCall, type OutcomeKind, ScriptedOutcome } from '../activity-script.ts'
import type { Agenda } from './agenda.ts'
import {
  cancelledFailure,
  durationMs,
  encode,
  type Failure,
  type Payload,
  timeoutFailure,
  toError,
  toFailure,
} from './protos.ts'

export type ActivityEnd = (
  | { kind: 'completed'; result: Payload | null }
  | { kind: 'failed' | 'timed-out'; failure: Failure; retryState: RetryState }
  | { kind: 'cancelled'; failure: Failure }
) & {
  /** Null if the end came before the first attempt or between two, because the server then writes no start. */
  started: { attempt: number; lastFailure: Failure | null } | null
}

type End = ActivityEnd extends infer Each ? (Each extends unknown ? Omit<Each, 'started'> : never) : never

export interface ActivityRunInput {
  command: coresdk.workflow_commands.IScheduleActivity
  call: Omit<ActivityCall, 'attempt' | 'atMs'>
  script: (input: unknown, call: ActivityCall) => unknown
  agenda: Agenda
  /** Whether a worker currently polls the queue. */
  isServed: (taskQueue: string) => boolean
  onAttempt: (call: ActivityCall) => void
  onEnd: (end: ActivityEnd) => void
}

/** Duration of an attempt that states none. */
const DEFAULT_ATTEMPT_MS = 10
/** From a cancel request to the worker's answer: the reply to the next heartbeat. */
const CANCEL_MS = 10

/**
 * One scheduled activity with all its attempts, by the server's rules: retries follow the policy and write no history;
 * schedule-to-start is never retried; no attempt starts that would exceed schedule-to-close, and the activity then ends with the last
 * attempt's own failure; a cancellation reaches only attempts that send heartbeats.
 */
export class ActivityRun {
  readonly #input: ActivityRunInput
  #attempt = 0
  #phase: 'queued' | 'running' | 'backing-off' | 'ended' = 'queued'
  #ignoresCancel = false
  #isCancelling = false
  /** The server starts no further attempt, even if the running attempt has not received the request. */
  #isCancelRequested = false
  /** Failure of the previous attempt. */
  #lastFailure: Failure | null = null
  #startedAtMs = 0
  /** The moment at which schedule-to-close passes. */
  readonly #expiresAtMs: number
  /** Removes the current phase's entry from the agenda. */
  #unplan: () => void = () => {}

  constructor(input: ActivityRunInput) {
    this.#input = input
    this.#expiresAtMs = input.agenda.nowMs + (input.call.scheduleToCloseMs ?? Number.POSITIVE_INFINITY)
  }

  get taskQueue(): string {
    return this.#input.call.taskQueue
  }

  get type(): string {
    return this.#input.call.type
  }

  get description(): string {
    return `${this.#input.call.type} on ${this.taskQueue} (${this.#phase}, attempt ${this.#attempt})`
  }

  /** Puts the next attempt on the queue. */
  async enqueue(): Promise<void> {
    const { agenda, isServed, call } = this.#input
    // Cancelled at the moment of its scheduling.
    if (this.#isCancelling) return
    this.#phase = 'queued'
    if (isServed(this.taskQueue)) return this.#begin()
    const untilStartMs = call.scheduleToStartMs ?? Number.POSITIVE_INFINITY
    const untilExpiryMs = this.#expiresAtMs - agenda.nowMs
    const limit = Math.min(untilStartMs, untilExpiryMs)
    if (limit === Number.POSITIVE_INFINITY) return
    // The server shortens schedule-to-start to schedule-to-close, and reports the former.
    this.#unplan = agenda.after(limit, () =>
      this.#end({
        kind: 'timed-out',
        failure: timeoutFailure(TimeoutType.SCHEDULE_TO_START),
        retryState: RetryState.TIMEOUT,
      }),
    )
  }

  /** A worker polls the queue again. */
  async workerReturned(): Promise<void> {
    if (this.#phase !== 'queued') return
    this.#unplan()
    await this.#begin()
  }

  /** The worker process died: no answer comes until the heartbeat timeout, or until start-to-close without one. */
  workerDied(): void {
    if (this.#phase !== 'running') return
    this.#unplan()
    const { call, agenda } = this.#input
    const runs = agenda.nowMs - this.#startedAtMs
    const [timeout, afterMs] =
      call.heartbeatMs === null
        ? [TimeoutType.START_TO_CLOSE, Math.max(0, (call.startToCloseMs ?? 0) - runs)]
        : [TimeoutType.HEARTBEAT, call.heartbeatMs]
    this.#unplan = agenda.after(afterMs, () => this.#fail('timed-out', timeoutFailure(timeout)))
  }

  requestCancel(): void {
    const { agenda, call } = this.#input
    if (this.#phase === 'ended') return
    this.#isCancelRequested = true
    if (this.#phase === 'running' && (this.#ignoresCancel || call.heartbeatMs === null)) return
    this.#unplan()
    this.#isCancelling = true
    const delay = this.#phase === 'running' ? CANCEL_MS : 0
    this.#unplan = agenda.after(delay, () =>
      this.#end({ kind: 'cancelled', failure: cancelledFailure('Activity cancelled') }),
    )
  }

  /** Its workflow has closed or no longer waits: the result is discarded. */
  abandon(): void {
    this.#unplan()
    this.#phase = 'ended'
  }

  async #begin(): Promise<void> {
    this.#phase = 'running'
    this.#attempt++
    this.#startedAtMs = this.#input.agenda.nowMs
    const call: ActivityCall = { ...this.#input.call, attempt: this.#attempt, atMs: this.#startedAtMs }
    this.#input.onAttempt(call)
    let outcome: OutcomeKind
    try {
      const scripted = await this.#input.script(call.input, call)
      outcome =
        scripted instanceof ScriptedOutcome
          ? scripted.outcome
          : { kind: 'takes', ms: DEFAULT_ATTEMPT_MS, end: () => scripted, ignoresCancel: false }
    } catch (error) {
      outcome = {
        kind: 'takes',
        ms: DEFAULT_ATTEMPT_MS,
        ignoresCancel: false,
        end: () => {
          throw error
        },
      }
    }
    // A script may stop its own worker; its answer is then lost.
    if (!this.#input.isServed(this.taskQueue)) return this.workerDied()
    this.#plan(outcome, call)
  }

  #plan(outcome: OutcomeKind, call: ActivityCall): void {
    const { agenda } = this.#input
    if (outcome.kind === 'times-out') {
      const failure = timeoutFailure(outcome.timeout, outcome.lastHeartbeat)
      this.#unplan = agenda.after(timeoutMs(outcome.timeout, call), () => this.#fail('timed-out', failure))
      return
    }
    this.#ignoresCancel = outcome.ignoresCancel
    const untilCloseMs = call.startToCloseMs ?? Number.POSITIVE_INFINITY
    const untilExpiryMs = this.#expiresAtMs - agenda.nowMs
    const [timeout, limitMs] =
      untilExpiryMs < untilCloseMs
        ? [TimeoutType.SCHEDULE_TO_CLOSE, untilExpiryMs]
        : [TimeoutType.START_TO_CLOSE, untilCloseMs]
    if (outcome.ms > limitMs) {
      this.#unplan = agenda.after(limitMs, () => this.#fail('timed-out', timeoutFailure(timeout)))
      return
    }
    this.#unplan = agenda.after(outcome.ms, () => {
      let result: unknown
      try {
        result = outcome.end()
      } catch (error) {
        // A worker reports other errors under their class name.
        return this.#fail(
          'failed',
          toFailure(error instanceof TemporalFailure ? error : ensureApplicationFailure(error)),
        )
      }
      const [payload] = encode(result)
      this.#end({ kind: 'completed', result: payload ?? null })
    })
  }

  #fail(kind: 'failed' | 'timed-out', failure: Failure): void {
    const retryState = this.#retryStateAfter(failure)
    if (retryState !== RetryState.IN_PROGRESS) {
      const cause = kind === 'timed-out' && this.#lastFailure !== null ? { cause: this.#lastFailure } : {}
      this.#end({ kind, failure: { ...failure, ...cause }, retryState })
      return
    }
    this.#lastFailure = failure
    this.#phase = 'backing-off'
    this.#unplan = this.#input.agenda.after(this.#backoffMs(), () => this.enqueue())
  }

  #retryStateAfter(failure: Failure): RetryState {
    if (this.#isCancelRequested) return RetryState.CANCEL_REQUESTED
    const { maximumAttempts } = this.#input.call
    const error = toError(failure)
    const policy = this.#input.command.retryPolicy
    if (error instanceof ApplicationFailure) {
      const refused = (policy?.nonRetryableErrorTypes ?? []).includes(error.type ?? '')
      if (error.nonRetryable || refused) return RetryState.NON_RETRYABLE_FAILURE
    }
    const timeout = failure.timeoutFailureInfo ? failure.message : null
    if (timeout?.includes(TimeoutType.SCHEDULE_TO_START)) return RetryState.NON_RETRYABLE_FAILURE
    if (timeout?.includes(TimeoutType.SCHEDULE_TO_CLOSE)) return RetryState.TIMEOUT
    const refusesTimeout = (name: string) => (policy?.nonRetryableErrorTypes ?? []).includes(`TemporalTimeout:${name}`)
    if (timeout?.includes(TimeoutType.START_TO_CLOSE) && refusesTimeout('StartToClose')) {
      return RetryState.NON_RETRYABLE_FAILURE
    }
    if (timeout?.includes(TimeoutType.HEARTBEAT) && refusesTimeout('Heartbeat')) return RetryState.NON_RETRYABLE_FAILURE
    if (maximumAttempts > 0 && this.#attempt >= maximumAttempts) return RetryState.MAXIMUM_ATTEMPTS_REACHED
    if (this.#input.agenda.nowMs + this.#backoffMs() > this.#expiresAtMs) return RetryState.TIMEOUT
    return RetryState.IN_PROGRESS
  }

  /** The server's defaults: 1 s, doubled each time, at most a hundred times the first. */
  #backoffMs(): number {
    const policy = this.#input.command.retryPolicy
    const initial = durationMs(policy?.initialInterval) ?? 1000
    const most = durationMs(policy?.maximumInterval) ?? initial * 100
    return Math.min(most, initial * (policy?.backoffCoefficient || 2) ** (this.#attempt - 1))
  }

  #end(end: End): void {
    // The answer and the cancellation may be in flight together: the first one counts.
    if (this.#phase === 'ended') return
    const started = this.#phase === 'running' ? { attempt: this.#attempt, lastFailure: this.#lastFailure } : null
    this.#unplan()
    this.#phase = 'ended'
    this.#input.onEnd({ ...end, started })
  }
}

function timeoutMs(timeout: TimeoutType, call: ActivityCall): number {
  const limits = new Map<TimeoutType, number | null>([
    [TimeoutType.HEARTBEAT, call.heartbeatMs],
    [TimeoutType.SCHEDULE_TO_START, call.scheduleToStartMs],
    [TimeoutType.START_TO_CLOSE, call.startToCloseMs],
    [TimeoutType.SCHEDULE_TO_CLOSE, call.scheduleToCloseMs],
  ])
  const limit = limits.get(timeout) ?? null
  if (limit === null) {
    throw new Error(`Expected ${call.type} to have a ${timeout} timeout, it has none: it cannot end that way`)
  }
  return limit
}
