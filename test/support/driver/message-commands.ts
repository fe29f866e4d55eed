/** Messages: signals and cancel requests to other workflows, answers to updates. */
import type { coresdk, temporal } from '@temporalio/proto'
import { requestId, WORKER_IDENTITY } from '../history-builder.ts'
import { requestCancelOf } from './child-commands.ts'
import type { Failure } from './protos.ts'
import { NAMESPACE, type WorkflowRun } from './workflow-run.ts'
import type { Step, World } from './world.ts'

export function cancelExternal(
  step: Step,
  command: coresdk.workflow_commands.IRequestCancelExternalWorkflowExecution,
): void {
  const workflowId = command.workflowExecution?.workflowId ?? ''
  const found = requestCancelOf(step, { workflowId, reason: command.reason ?? '', childWorkflowOnly: false })
  if (found === null) return
  step.run.addJob({
    resolveRequestCancelExternalWorkflow: {
      seq: command.seq ?? 0,
      ...(found ? {} : { failure: notFound(workflowId) }),
    },
  })
}

export function signalExternal(
  { world, run, taskCompletedEventId, isLast }: Step,
  command: coresdk.workflow_commands.ISignalExternalWorkflowExecution,
): void {
  const workflowId = command.workflowExecution?.workflowId ?? command.childWorkflowId ?? ''
  const common = { namespace: NAMESPACE, namespaceId: requestId(1), workflowExecution: { workflowId } }
  const initiatedEventId = run.history.add({
    type: 'EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED',
    timeMs: world.nowMs(),
    attributes: {
      signalExternalWorkflowExecutionInitiatedEventAttributes: {
        ...common,
        signalName: command.signalName,
        input: { payloads: command.args ?? [] },
        childWorkflowOnly: Boolean(command.childWorkflowId),
        header: { fields: command.headers ?? {} },
        workflowTaskCompletedEventId: taskCompletedEventId,
      },
    },
  })
  if (isLast) return
  const found = world.signal(workflowId, {
    signalName: command.signalName ?? '',
    input: command.args ?? [],
    identity: WORKER_IDENTITY,
    headers: command.headers ?? {},
  })
  run.history.add(
    found
      ? {
          type: 'EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_SIGNALED',
          timeMs: world.nowMs(),
          attributes: { externalWorkflowExecutionSignaledEventAttributes: { ...common, initiatedEventId } },
        }
      : {
          type: 'EVENT_TYPE_SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_FAILED',
          timeMs: world.nowMs(),
          attributes: {
            signalExternalWorkflowExecutionFailedEventAttributes: {
              ...common,
              cause: 1,
              initiatedEventId,
              workflowTaskCompletedEventId: taskCompletedEventId,
            },
          },
        },
  )
  run.addJob({
    resolveSignalExternalWorkflow: { seq: command.seq ?? 0, ...(found ? {} : { failure: notFound(workflowId) }) },
  })
}

function notFound(workflowId: string): Failure {
  return {
    message: `Unable to find an open workflow with id ${workflowId}`,
    applicationFailureInfo: { type: 'ExternalWorkflowExecutionNotFound' },
  }
}

export function answerUpdate({ world, run }: Step, response: coresdk.workflow_commands.IUpdateResponse): void {
  const id = response.protocolInstanceId ?? ''
  const update = run.updates.get(id)
  if (update === undefined) throw new Error(`${run.start.workflowId} answered an unknown update ${id}`)
  if (response.accepted) {
    update.accepted = true
    update.acceptedEventId = run.history.add({
      type: 'EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED',
      timeMs: world.nowMs(),
      attributes: {
        workflowExecutionUpdateAcceptedEventAttributes: {
          protocolInstanceId: id,
          acceptedRequestMessageId: `${id}/request`,
          acceptedRequestSequencingEventId: run.history.length - 2,
          acceptedRequest: update.request,
        },
      },
    })
    return
  }
  run.updates.delete(id)
  if (response.rejected) {
    if (update.accepted) completeUpdate(world, run, id, update.acceptedEventId, { failure: response.rejected })
    return update.reject(response.rejected)
  }
  const success = { payloads: response.completed ? [response.completed] : [] }
  completeUpdate(world, run, id, update.acceptedEventId, { success })
  update.resolve(response.completed ?? null)
}

function completeUpdate(
  world: World,
  run: WorkflowRun,
  updateId: string,
  acceptedEventId: number,
  outcome: temporal.api.update.v1.IOutcome,
): void {
  run.history.add({
    type: 'EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED',
    timeMs: world.nowMs(),
    attributes: {
      workflowExecutionUpdateCompletedEventAttributes: {
        meta: { updateId, identity: WORKER_IDENTITY },
        acceptedEventId,
        outcome,
      },
    },
  })
}
