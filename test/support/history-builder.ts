/**
 * Workflow histories as real protobufs, with fields as long as a server's, so that event counts and bytes can be compared with a
 * budget and `Worker.runReplayHistories` can replay the result.
 */
import { msToTs } from '@temporalio/common'
import proto from '@temporalio/proto'
import type { temporal } from '@temporalio/proto'

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent
export type History = temporal.api.history.v1.History

const { EventType } = proto.temporal.api.enums.v1
const { HistoryEvent: Event, History: HistoryMessage } = proto.temporal.api.history.v1

/** As long as `<pid>@<host>` on a cluster. */
export const WORKER_IDENTITY = '1234567@sandbox-host-0012.cluster.example'
/** As long as the hash that workers derive from their bundle. */
const BUILD_ID = `@temporalio/worker@1.24.0+${'0'.repeat(64)}`

/** Checks that newer versions of core make; without these flags a replay would not compare activity types. */
const CORE_FLAGS = [1, 2, 3]

export type EventName = keyof typeof EventType

type Long = NonNullable<HistoryEvent['eventId']>

/** The attributes of an event, with plain numbers for the ids of other events, as `fromObject` takes them. */
export type EventAttributes = {
  [K in keyof HistoryEvent as K extends `${string}EventAttributes` ? K : never]?: WithNumbers<
    NonNullable<HistoryEvent[K]>
  >
}

type WithNumbers<T> = { [K in keyof T]?: (NonNullable<T[K]> extends Long ? number : T[K]) | undefined }

export interface AddEventInput {
  type: EventName
  /** Attributes under the name of the event's oneof. */
  attributes: EventAttributes
  timeMs: number
  userMetadata?: temporal.api.sdk.v1.IUserMetadata | null | undefined
}

/** Appends events, numbers them from 1 and sums their encoded size. */
export class HistoryBuilder {
  readonly #events: temporal.api.history.v1.HistoryEvent[] = []
  #bytes = 0
  #largestPayload = 0

  get length(): number {
    return this.#events.length
  }

  /** Encoded bytes of all events, which the server counts against its limits. */
  get bytes(): number {
    return this.#bytes
  }

  /** Bytes of the largest single payload, metadata included. */
  get largestPayload(): number {
    return this.#largestPayload
  }

  /** @returns the event's id */
  add({ type, attributes, timeMs, userMetadata }: AddEventInput): number {
    const eventId = this.#events.length + 1
    const event = Event.fromObject({
      eventId,
      eventTime: timestamp(timeMs),
      eventType: EventType[type],
      // Task ids of a busy server have eight digits.
      taskId: 10_000_000 + eventId,
      ...attributes,
      ...(userMetadata ? { userMetadata } : {}),
    })
    this.#events.push(event)
    this.#bytes += Event.encode(event).finish().length
    this.#largestPayload = Math.max(this.#largestPayload, largestPayloadOf(event))
    return eventId
  }

  /** The three events of one completed workflow task. @returns the id of the last, to which commands refer */
  addWorkflowTask({ timeMs, taskQueue, flags, sdk, suggestContinueAsNew }: WorkflowTaskInput): number {
    const scheduledEventId = this.add({
      type: 'EVENT_TYPE_WORKFLOW_TASK_SCHEDULED',
      timeMs,
      attributes: {
        workflowTaskScheduledEventAttributes: {
          taskQueue: { name: taskQueue, kind: 1 },
          startToCloseTimeout: msToTs('10s'),
          attempt: 1,
        },
      },
    })
    const startedEventId = this.add({
      type: 'EVENT_TYPE_WORKFLOW_TASK_STARTED',
      timeMs,
      attributes: {
        workflowTaskStartedEventAttributes: {
          scheduledEventId: scheduledEventId,
          identity: WORKER_IDENTITY,
          requestId: requestId(scheduledEventId),
          suggestContinueAsNew,
          historySizeBytes: this.#bytes,
          workerVersion: { buildId: BUILD_ID },
        },
      },
    })
    return this.add({
      type: 'EVENT_TYPE_WORKFLOW_TASK_COMPLETED',
      timeMs,
      attributes: {
        workflowTaskCompletedEventAttributes: {
          scheduledEventId: scheduledEventId,
          startedEventId: startedEventId,
          identity: WORKER_IDENTITY,
          workerVersion: { buildId: BUILD_ID },
          // The server stores flags and SDK name only if they are new, so on the first task.
          sdkMetadata:
            scheduledEventId === 2
              ? { coreUsedFlags: CORE_FLAGS, langUsedFlags: flags, sdkName: sdk.name, sdkVersion: sdk.version }
              : { langUsedFlags: flags },
          meteringMetadata: {},
        },
      },
    })
  }

  build(): History {
    return HistoryMessage.create({ events: [...this.#events] })
  }
}

export interface WorkflowTaskInput {
  timeMs: number
  taskQueue: string
  /** Internal SDK flags that the workflow reported; a replay must see the same. */
  flags: number[]
  sdk: { name: string; version: string }
  /** A replay takes the suggestion from this field, not from the history's length. */
  suggestContinueAsNew: boolean
}

export function timestamp(timeMs: number): { seconds: number; nanos: number } {
  return { seconds: Math.floor(timeMs / 1000), nanos: (timeMs % 1000) * 1_000_000 }
}

/** A UUID that depends only on its number. */
export function requestId(number: number): string {
  return `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`
}

/** Payloads occur at any depth: arguments, results, headers, details of failures, memo, search attributes. */
function largestPayloadOf(value: unknown): number {
  if (value === null || typeof value !== 'object') return 0
  if (isPayload(value)) return proto.temporal.api.common.v1.Payload.encode(value).finish().length
  if (value instanceof Uint8Array) return 0
  return Object.values(value).reduce<number>((largest, part) => Math.max(largest, largestPayloadOf(part)), 0)
}

function isPayload(value: object): value is temporal.api.common.v1.IPayload {
  return 'data' in value && value.data instanceof Uint8Array && 'metadata' in value
}
