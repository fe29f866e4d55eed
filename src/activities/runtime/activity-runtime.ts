import { ApplicationFailure, CancelledFailure, Context } from '@temporalio/activity'
import { type LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import type { ActivityHeartbeat, Failing } from '../../contracts/waits.types.ts'
import { type AttemptLimits, createWaitBoard, type WaitBoard } from './wait-board.ts'

/** What a running activity can use: its cancellation signal, its attempt, and heartbeat details. */
export interface ActivityScope {
  signal: AbortSignal
  /** 1-based. */
  attempt: number
  /** Rises over the attempts at an activity, also where a person resets it: the server then counts its attempts from 1 again. */
  order: number
  owner: ActivityOwner
  /** ms since 1970. */
  startedMs: number
  /** The failures of the attempts directly before this one; null if the last one did not fail. */
  failing: Failing | null
  /** Sets the details of further heartbeats. Waits are added automatically, see `wait-board.ts`. */
  beat(facts: object): void
}

/** The workflow execution that requested an activity. It closes what is opened for it. Both fields are empty outside a workflow. */
export interface ActivityOwner {
  owner: string
  ownerRun: string
}

/** `run blockers` names a wait within a minute, however long its time-out is. */
const LONGEST_BEAT_MS = 10_000

/** Each heartbeat costs the server a write. Most activities end within this time and cost none; a turn changes its phase several
 *  times within it. */
const SHORTEST_BEAT_MS = 1_000

/**
 * Wraps an activity. Sends heartbeats from a timer, because an activity without heartbeats never learns that it was cancelled or timed
 * out; reports in each heartbeat what it waits for; and maps every error in one place. Without a heartbeat timeout it sends none.
 */
export function activity<Input, Result>(
  body: (input: Input, scope: ActivityScope) => Promise<Result>,
): (input: Input) => Promise<Result> {
  return async (input) => {
    const context = Context.current()
    const board = createWaitBoard(limitsOf(context))
    const order = orderOf(context)
    const heart = startBeating(context, board, order)
    const { cancellationSignal: signal, info } = context
    const { attempt } = info
    const owner = ownerOf(context)
    const scope = { signal, attempt, order, owner, startedMs: Date.now(), failing: failingBefore(context) }
    try {
      return await board.run(() => body(input, { ...scope, beat: (facts) => heart.beat(facts) }))
    } catch (error) {
      const failure = toFailure(error, context, board)
      if (failure instanceof ApplicationFailure) heart.failed(failure, error)
      throw failure
    } finally {
      heart.stop()
    }
  }
}

function ownerOf({ info }: Context): ActivityOwner {
  const execution = info.workflowExecution
  return { owner: execution?.workflowId ?? '', ownerRun: execution?.runId ?? '' }
}

function limitsOf({ cancellationSignal: signal, info }: Context): AttemptLimits {
  const { startToCloseTimeoutMs: limitMs } = info
  return { signal, endsAtMs: limitMs > 0 ? Date.now() + limitMs : Number.POSITIVE_INFINITY }
}

interface Heart {
  beat(facts: object): void
  failed(failure: ApplicationFailure, error: unknown): void
  stop(): void
}

function failingBefore({ info }: Context): Failing | null {
  return (info.heartbeatDetails as Partial<ActivityHeartbeat> | undefined)?.failing ?? null
}

/** More than the attempts of a step of an episode, whose fence contains the number. */
const AFTER_LOST_HEARTBEATS = 500

/** The server schedules a first attempt with its activity, and any other at least a second later. */
const FIRST_WITHIN_MS = 500

/**
 * The attempt before has told its own in its heartbeats. If they are gone (the person has cleared them, or that attempt died at once),
 * the number is one that no attempt before can have reached.
 */
function orderOf({ info }: Context): number {
  const { attempt, heartbeatDetails, scheduledTimestampMs, currentAttemptScheduledTimestampMs } = info
  const before = (heartbeatDetails as Partial<ActivityHeartbeat> | undefined)?.order
  if (before !== undefined) return Math.max(attempt, before + 1)
  const isFirst = attempt === 1 && currentAttemptScheduledTimestampMs < scheduledTimestampMs + FIRST_WITHIN_MS
  return isFirst ? attempt : attempt + AFTER_LOST_HEARTBEATS
}

/** A third of the timeout, so that two heartbeats may be lost before the server gives up. */
function startBeating(context: Context, board: WaitBoard, order: number): Heart {
  const earlier = failingBefore(context)
  let facts: object | null = null
  let failing = earlier
  /** Until the pause ends, changes are only recorded; then the newest is sent. */
  let pause: NodeJS.Timeout | undefined
  let isChanged = false
  const send = (): void => {
    isChanged = false
    const heartbeat: ActivityHeartbeat = { facts, wait: board.current(), failing, order }
    context.heartbeat(heartbeat)
  }
  const beginPause = (): void => {
    pause = setTimeout(() => {
      pause = undefined
      if (isChanged) sendAndPause()
    }, SHORTEST_BEAT_MS)
  }
  const sendAndPause = (): void => {
    send()
    beginPause()
  }
  const timeoutMs = context.info.heartbeatTimeoutMs
  const isBeating = timeoutMs !== undefined && timeoutMs > 0
  if (isBeating) {
    // The server knows the attempt from its start, and shows a retry with the previous failure.
    isChanged = true
    beginPause()
  }
  const timer = isBeating ? setInterval(send, Math.min(timeoutMs / 3, LONGEST_BEAT_MS)) : undefined
  return {
    beat(next) {
      facts = next
      if (!isBeating) return
      isChanged = true
      if (pause === undefined) sendAndPause()
    },
    failed({ type, message }, error) {
      // Sent with the failure itself, so that the next attempt and `run blockers` can read since when the activity has been failing.
      const same = earlier?.code === type ? earlier : null
      failing = {
        code: type as Failing['code'],
        message,
        sinceMs: same?.sinceMs ?? Date.now(),
        tries: (same?.tries ?? 0) + 1,
        ...(board.failed(error) ?? { on: null, doing: null }),
      }
      if (isBeating) send()
    },
    stop() {
      clearInterval(timer)
      clearTimeout(pause)
    },
  }
}

/**
 * The only place where an error becomes a Temporal failure: `type` is the code, `details` are the facts. The message ends with the
 * awaited dependency, so that the last failure of a pending activity names it.
 */
function toFailure(error: unknown, context: Context, board: WaitBoard): Error {
  if (error instanceof CancelledFailure || error instanceof ApplicationFailure) return error
  if (context.cancellationSignal.aborted) return new CancelledFailure('activity cancelled')
  const known: LonghaulError = toLonghaulError(error)
  const wait = board.failed(error)
  const who = wait === null ? null : `${wait.doing}, ${wait.on.kind} ${wait.on.name}`
  return ApplicationFailure.create({
    type: known.code,
    message: who === null ? known.message : `${known.message} (${who})`,
    nonRetryable: !known.retryable,
    details: [who === null ? known.details : { ...known.details, waitedFor: who }],
    cause: known,
  })
}
