/**
 * Scripted answers of activities: a table with one function per activity type, typed by the project's own interfaces. A function is
 * called once per attempt; it returns the result, throws (retried by the activity's own policy), or returns one of the outcomes
 * below. The outcome also sets how long the attempt takes on the fake clock.
 */
import { ApplicationFailure, type TimeoutType } from '@temporalio/common'
import { FAILURE_CODES, type FailureCode } from '../../src/contracts/failure-codes.ts'

/** One attempt of an activity, as the workflow requested it. Durations in milliseconds; null = no limit. */
export interface ActivityCall {
  type: string
  input: unknown
  workflowId: string
  taskQueue: string
  /** From 1. */
  attempt: number
  atMs: number
  scheduleToStartMs: number | null
  startToCloseMs: number | null
  heartbeatMs: number | null
  /** Limit over all attempts. */
  scheduleToCloseMs: number | null
  /** 0 = unlimited */
  maximumAttempts: number
  summary: string | null
}

export type ActivityTable<A> = {
  [K in keyof A]?: A[K] extends (input: infer Input) => Promise<infer Result>
    ? (input: Input, call: ActivityCall) => Scripted<Result> | Promise<Scripted<Result>>
    : never
}

export type Scripted<T> = T | ScriptedOutcome<T>

export type OutcomeKind =
  | { kind: 'takes'; ms: number; end: () => unknown; ignoresCancel: boolean }
  | { kind: 'times-out'; timeout: TimeoutType; lastHeartbeat: unknown }

/** Created only by the functions below, so that no result can be mistaken for an instruction. */
export class ScriptedOutcome<T = never> {
  readonly outcome: OutcomeKind
  /** Carries the result's type for the table; never set. */
  declare readonly result?: T

  constructor(outcome: OutcomeKind) {
    this.outcome = outcome
  }
}

/** The attempt ends after `ms`. A function is called at that moment, so that a test can act or throw then. */
export function takes<T>(
  ms: number,
  end: T | (() => T),
  options: { ignoresCancel?: boolean } = {},
): ScriptedOutcome<T> {
  const call = typeof end === 'function' ? (end as () => T) : () => end
  return new ScriptedOutcome<T>({ kind: 'takes', ms, end: call, ignoresCancel: options.ignoresCancel ?? false })
}

/** The attempt never ends by itself: it is cancelled, or reaches its start-to-close timeout. */
export function neverEnds(): ScriptedOutcome {
  return takes<never>(Number.MAX_SAFE_INTEGER, () => {
    throw new Error('unreachable')
  })
}

/** The attempt ends by a timeout of the activity's own options. A heartbeat timeout means that its worker died. */
export function timesOut(timeout: TimeoutType, lastHeartbeat?: unknown): ScriptedOutcome {
  return new ScriptedOutcome({ kind: 'times-out', timeout, lastHeartbeat })
}

/** The failure that a worker reports for a code, with the retry rule of the code's table. */
export function failureOf(code: FailureCode, message: string = code): ApplicationFailure {
  return ApplicationFailure.create({ type: code, message, nonRetryable: !FAILURE_CODES[code].retryable })
}
