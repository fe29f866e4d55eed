import { log, setHandler, type SignalDefinition } from '@temporalio/workflow'
import {
  type Check,
  isCount,
  isFlag,
  isId,
  isNumber,
  isText,
  listOf,
  oneOf,
  optional,
  recordOf,
  shape,
} from '../domain/shapes.ts'

/** Longer than any grace time, and far from the end of what a date can be. */
const MOST_GRACE_MS = 366 * 24 * 60 * 60_000

const taskError = shape({ task: isText, failure: isText, at: isText })

/** What each signal carries, by its name. Messages of earlier versions lack the optional parts. */
const PAYLOADS = {
  control: shape({
    paused: isFlag,
    hard: optional(isFlag),
    stopAfterIteration: optional(isPositive),
    concurrency: optional(isPositive),
  }),
  alarm: shape({ stage: isText, iteration: isCount, why: isText }),
  report: shape({
    workflowId: isText,
    stage: isText,
    iteration: isCount,
    at: isText,
    groups: isNumber,
    tasks: isNumber,
    episodes: isNumber,
    resolved: isNumber,
    endings: recordOf(isNumber),
    score: optional(shape({ mean: isNumber, low: isNumber, high: isNumber, tasks: isNumber })),
    eta: optional(isText),
    slowest: listOf(shape({ task: isText, since: isText })),
    errors: listOf(taskError),
    failures: recordOf(isNumber),
  }),
  requeue: shape({ task: isId, id: isCount, replyTo: isId }),
  requeued: shape({ id: isCount, kind: oneOf('again', 'unchanged', 'refused'), note: isText }),
  handed: shape({
    groups: listOf(
      shape({
        taskId: isText,
        valid: isCount,
        episodes: isCount,
        infra: isCount,
        resolved: isCount,
        turns: isCount,
        failure: optional(isText),
        endings: optional(recordOf(isNumber)),
      }),
    ),
  }),
  handAgain: shape({ arrived: isCount }),
  arrived: shape({ queue: isId, engine: isText }),
  drain: optional(shape({ graceMs: optional(isGrace) })),
} satisfies Record<string, Check>

/**
 * Sets the handler of a signal. Anybody can send any signal with any payload, and an exception in a handler blocks its workflow until
 * somebody resets it. So a payload that the handler cannot take is logged and changes nothing.
 */
export function receiveSignal<Payload, Name extends keyof typeof PAYLOADS>(
  signal: SignalDefinition<[Payload], Name>,
  handle: (payload: Payload) => void | Promise<void>,
): void {
  const { name } = signal
  setHandler<void, [Payload], SignalDefinition<[Payload]>>(signal, (payload) => {
    if (PAYLOADS[name](payload)) return handle(payload)
    log.warn('a signal was ignored, because its payload is not what it carries', { signal: name })
  })
}

function isPositive(value: unknown): boolean {
  return isCount(value) && value !== 0
}

function isGrace(value: unknown): boolean {
  return isCount(value) && value <= MOST_GRACE_MS
}
