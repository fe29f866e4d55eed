/** The last command of a run. */
import type { coresdk } from '@temporalio/proto'
import type { Failure } from './protos.ts'
import type { Step } from './world.ts'

export function complete(
  { world, run, taskCompletedEventId }: Step,
  command: coresdk.workflow_commands.ICompleteWorkflowExecution,
): void {
  const result = command.result ?? null
  run.history.add({
    type: 'EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED',
    timeMs: world.nowMs(),
    attributes: {
      workflowExecutionCompletedEventAttributes: {
        workflowTaskCompletedEventId: taskCompletedEventId,
        ...(result === null ? {} : { result: { payloads: [result] } }),
      },
    },
  })
  world.close(run, { kind: 'completed', result })
}

export function fail({ world, run, taskCompletedEventId }: Step, failure: Failure): void {
  run.history.add({
    type: 'EVENT_TYPE_WORKFLOW_EXECUTION_FAILED',
    timeMs: world.nowMs(),
    attributes: {
      workflowExecutionFailedEventAttributes: {
        failure,
        retryState: 5,
        workflowTaskCompletedEventId: taskCompletedEventId,
      },
    },
  })
  world.close(run, { kind: 'failed', failure })
}

export function cancelled({ world, run, taskCompletedEventId }: Step): void {
  run.history.add({
    type: 'EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED',
    timeMs: world.nowMs(),
    attributes: { workflowExecutionCanceledEventAttributes: { workflowTaskCompletedEventId: taskCompletedEventId } },
  })
  world.close(run, { kind: 'cancelled' })
}

export function continueAsNew(
  { world, run, taskCompletedEventId }: Step,
  command: coresdk.workflow_commands.IContinueAsNewWorkflowExecution,
): void {
  const runId = world.continueAsNew(run, command)
  run.history.add({
    type: 'EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW',
    timeMs: world.nowMs(),
    attributes: {
      workflowExecutionContinuedAsNewEventAttributes: {
        newExecutionRunId: runId,
        workflowType: { name: command.workflowType || run.start.type },
        taskQueue: { name: command.taskQueue || run.start.taskQueue, kind: 1 },
        input: { payloads: command.arguments ?? [] },
        workflowTaskCompletedEventId: taskCompletedEventId,
        initiator: 1,
        memo: { fields: command.memo ?? {} },
        searchAttributes: command.searchAttributes ?? { indexedFields: run.searchAttributes },
      },
    },
  })
  world.close(run, { kind: 'continued-as-new', runId })
}
