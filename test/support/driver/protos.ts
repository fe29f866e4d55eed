/** Payloads and failures as the server and core encode them. */
import {
  defaultFailureConverter,
  defaultPayloadConverter,
  encodeRetryState,
  encodeTimeoutType,
  RetryState,
  type TimeoutType,
  toPayloads,
} from '@temporalio/common'
import type { coresdk, temporal } from '@temporalio/proto'
import { WORKER_IDENTITY } from '../history-builder.ts'

export type Payload = temporal.api.common.v1.IPayload
export type Failure = temporal.api.failure.v1.IFailure
export type Job = coresdk.workflow_activation.IWorkflowActivationJob
export type Command = coresdk.workflow_commands.IWorkflowCommand

export function encode(...values: unknown[]): Payload[] {
  return toPayloads(defaultPayloadConverter, ...values) ?? []
}

export function decode(payload: Payload | null | undefined): unknown {
  return payload ? defaultPayloadConverter.fromPayload(payload) : undefined
}

export function decodeFields(fields: Record<string, Payload> | null | undefined): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields ?? {}).map(([name, payload]) => [name, decode(payload)]))
}

export function toFailure(error: unknown): Failure {
  return defaultFailureConverter.errorToFailure(error, defaultPayloadConverter)
}

export function toError(failure: Failure): Error {
  return defaultFailureConverter.failureToError(failure, defaultPayloadConverter)
}

export function timeoutFailure(timeoutType: TimeoutType, lastHeartbeat?: unknown): Failure {
  return {
    message: `activity ${timeoutType} timeout`,
    source: 'Server',
    timeoutFailureInfo: {
      timeoutType: encodeTimeoutType(timeoutType) ?? null,
      ...(lastHeartbeat === undefined ? {} : { lastHeartbeatDetails: { payloads: encode(lastHeartbeat) } }),
    },
  }
}

export function cancelledFailure(message: string): Failure {
  return { message, source: 'Server', canceledFailureInfo: {} }
}

/** Core wraps an activity's failure before the workflow sees it. */
export function activityFailure(input: {
  cause: Failure
  activityType: string
  activityId: string
  scheduledEventId: number
  retryState: RetryState
}): Failure {
  return {
    message: 'Activity task failed',
    cause: input.cause,
    activityFailureInfo: {
      scheduledEventId: input.scheduledEventId as never,
      identity: WORKER_IDENTITY,
      activityType: { name: input.activityType },
      activityId: input.activityId,
      retryState: encodeRetryState(input.retryState) ?? null,
    },
  }
}

export function childFailure(input: {
  cause: Failure
  workflowId: string
  runId: string
  workflowType: string
  /** @default NON_RETRYABLE_FAILURE */
  retryState?: RetryState
}): Failure {
  return {
    message: 'Child Workflow execution failed',
    cause: input.cause,
    childWorkflowExecutionFailureInfo: {
      namespace: 'default',
      workflowExecution: { workflowId: input.workflowId, runId: input.runId },
      workflowType: { name: input.workflowType },
      retryState: encodeRetryState(input.retryState ?? RetryState.NON_RETRYABLE_FAILURE) ?? null,
    },
  }
}

/** Milliseconds of a protobuf duration; null if it is unset or zero, which both mean "no limit". */
export function durationMs(duration: { seconds?: unknown; nanos?: number | null } | null | undefined): number | null {
  if (!duration) return null
  const ms = Number(duration.seconds ?? 0) * 1000 + (duration.nanos ?? 0) / 1_000_000
  return ms === 0 ? null : ms
}
