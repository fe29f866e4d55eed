/** A history as comparable lines: the events, without ids, times and workflow tasks. */
import { defaultPayloadConverter } from '@temporalio/common'
import proto from '@temporalio/proto'
import type { temporal } from '@temporalio/proto'
import type { HistoryEvent } from '../history-builder.ts'

type Failure = temporal.api.failure.v1.IFailure
type Payload = temporal.api.common.v1.IPayload

const { EventType, RetryState, TimeoutType, ParentClosePolicy } = proto.temporal.api.enums.v1
const { StartChildWorkflowExecutionFailedCause, SignalExternalWorkflowExecutionFailedCause } =
  proto.temporal.api.enums.v1

/** A busy server batches workflow tasks as it likes. */
const WORKFLOW_TASKS = /^WORKFLOW_TASK_/

export function traceOf(events: readonly HistoryEvent[]): string[] {
  return events.flatMap((event) => {
    const type = nameOf(event)
    if (WORKFLOW_TASKS.test(type)) return []
    const facts = Object.entries(factsOf(event)).filter(([, value]) => value !== undefined && value !== null)
    return [[type, ...facts.map(([name, value]) => `${name}=${JSON.stringify(value)}`)].join(' ')]
  })
}

export function nameOf(event: HistoryEvent): string {
  return String(EventType[event.eventType ?? 0]).replace('EVENT_TYPE_', '')
}

/** The fields of an event that workflow code can see. */
function factsOf(event: HistoryEvent): Record<string, unknown> {
  const attributes = Object.entries(event).find(
    ([name, value]) => name.endsWith('EventAttributes') && value !== null && value !== undefined,
  )?.[1] as Record<string, unknown> | undefined
  const get = <T>(name: string): T | undefined => (attributes?.[name] ?? undefined) as T | undefined
  const type = nameOf(event)
  return {
    of: get<{ name?: string }>('activityType')?.name ?? get<{ name?: string }>('workflowType')?.name,
    role: (get<{ workflowId?: string }>('workflowExecution')?.workflowId ?? get<string>('workflowId'))
      ?.split('/')
      .at(-1),
    attempt: type === 'ACTIVITY_TASK_STARTED' ? get('attempt') : undefined,
    lastFailure: failure(get('lastFailure')),
    failure: failure(get('failure')),
    retryState: enumName(RetryState, get('retryState')),
    policy: type.startsWith('START_CHILD') ? enumName(ParentClosePolicy, get('parentClosePolicy')) : undefined,
    cause: causeName(type, get('cause')),
    signal: get('signalName'),
    marker: get('markerName'),
    result: payloads(get('result')),
    childOnly: get('childWorkflowOnly') === true ? true : undefined,
    reason: type === 'WORKFLOW_EXECUTION_TERMINATED' ? get('reason') : undefined,
    memo: fields(get<{ fields?: Record<string, Payload> }>('memo')?.fields),
    upsertedMemo: fields(get<{ fields?: Record<string, Payload> }>('upsertedMemo')?.fields),
    attributes: fields(get<{ indexedFields?: Record<string, Payload> }>('searchAttributes')?.indexedFields),
    outcome: outcome(get('outcome')),
  }
}

function causeName(type: string, cause: unknown): unknown {
  if (typeof cause !== 'number') return undefined
  if (type.startsWith('START_CHILD')) return StartChildWorkflowExecutionFailedCause[cause]
  return SignalExternalWorkflowExecutionFailedCause[cause]
}

/** An error as a workflow distinguishes it; the server's messages are not compared. */
function failure(value: Failure | undefined): string | undefined {
  if (value === undefined) return undefined
  const { applicationFailureInfo, timeoutFailureInfo, canceledFailureInfo, terminatedFailureInfo } = value
  const { activityFailureInfo, childWorkflowExecutionFailureInfo } = value
  const told = (applicationFailureInfo && [
    `application ${applicationFailureInfo.type ?? ''}: ${value.message}`,
    applicationFailureInfo.nonRetryable === true ? 'for good' : null,
    payloads(applicationFailureInfo.details),
  ]) ??
    (timeoutFailureInfo && [
      enumName(TimeoutType, timeoutFailureInfo.timeoutType),
      payloads(timeoutFailureInfo.lastHeartbeatDetails),
    ]) ??
    (canceledFailureInfo && ['cancelled']) ??
    (terminatedFailureInfo && ['terminated']) ??
    (activityFailureInfo && ['activity', enumName(RetryState, activityFailureInfo.retryState)]) ??
    (childWorkflowExecutionFailureInfo && [
      'child',
      enumName(RetryState, childWorkflowExecutionFailureInfo.retryState),
    ]) ?? [`of no kind: ${value.message}`]
  const own = told.filter((part) => part !== null && part !== undefined && part !== '').join(' ')
  return value.cause ? `${own} < ${failure(value.cause)}` : own
}

function outcome(value: temporal.api.update.v1.IOutcome | undefined): unknown {
  if (value === undefined) return undefined
  return value.failure ? failure(value.failure) : payloads(value.success)
}

function payloads(value: { payloads?: Payload[] | null } | null | undefined): string | undefined {
  const list = (value?.payloads ?? []).map((payload) => defaultPayloadConverter.fromPayload(payload))
  return list.length === 0 ? undefined : JSON.stringify(list)
}

function fields(value: Record<string, Payload> | null | undefined): unknown {
  const entries = Object.entries(value ?? {}).map(([name, payload]): [string, unknown] => [
    name,
    defaultPayloadConverter.fromPayload(payload),
  ])
  return entries.length === 0 ? undefined : Object.fromEntries(entries.toSorted(([a], [b]) => a.localeCompare(b)))
}

function enumName(names: Record<number, string>, value: unknown): string | undefined {
  return typeof value === 'number' && value !== 0
    ? names[value]?.replace(/^(RETRY_STATE|TIMEOUT_TYPE|PARENT_CLOSE_POLICY)_/, '')
    : undefined
}
