/** Children: start, end, cancellation. */
import { msToTs, RetryState } from '@temporalio/common'
import proto from '@temporalio/proto'
import type { coresdk } from '@temporalio/proto'
import { requestId } from '../history-builder.ts'
import { cancelledFailure, childFailure, type Failure } from './protos.ts'
import { NAMESPACE, type WorkflowRun } from './workflow-run.ts'
import { recall, remember, type Step, summaryOf, type World } from './world.ts'

const { ChildWorkflowCancellationType, ParentClosePolicy } = proto.coresdk.child_workflow

export function startChild(step: Step, command: coresdk.workflow_commands.IStartChildWorkflowExecution): void {
  const { world, run, taskCompletedEventId } = step
  const timeMs = world.nowMs()
  const workflowId = command.workflowId ?? ''
  const type = command.workflowType ?? ''
  const initiatedEventId = run.history.add({
    type: 'EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_INITIATED',
    timeMs,
    userMetadata: step.command.userMetadata,
    attributes: {
      startChildWorkflowExecutionInitiatedEventAttributes: {
        namespace: NAMESPACE,
        namespaceId: requestId(1),
        workflowId,
        workflowType: { name: type },
        taskQueue: { name: command.taskQueue || run.start.taskQueue, kind: 1 },
        input: { payloads: command.input ?? [] },
        workflowExecutionTimeout: command.workflowExecutionTimeout,
        workflowRunTimeout: command.workflowRunTimeout,
        workflowTaskTimeout: msToTs('10s'),
        parentClosePolicy: command.parentClosePolicy || ParentClosePolicy.PARENT_CLOSE_POLICY_TERMINATE,
        workflowTaskCompletedEventId: taskCompletedEventId,
        workflowIdReusePolicy: command.workflowIdReusePolicy,
        header: { fields: command.headers ?? {} },
        memo: { fields: command.memo ?? {} },
        searchAttributes: command.searchAttributes,
        priority: command.priority,
        inheritBuildId: true,
      },
    },
  })
  const delayMs = world.startDelayMs(workflowId)
  if (delayMs === 0) return beginChild(step, command, initiatedEventId)
  world.after(delayMs, () => {
    if (run.isOpen) beginChild(step, command, initiatedEventId)
  })
}

function beginChild(
  step: Step,
  command: coresdk.workflow_commands.IStartChildWorkflowExecution,
  initiatedEventId: number,
): void {
  const { world, run, taskCompletedEventId } = step
  const timeMs = world.nowMs()
  const seq = command.seq ?? 0
  const workflowId = command.workflowId ?? ''
  const type = command.workflowType ?? ''
  const child = world.startChild(
    {
      workflowId,
      type,
      taskQueue: command.taskQueue || run.start.taskQueue,
      args: command.input ?? [],
      headers: command.headers ?? {},
      memo: command.memo ?? {},
      searchAttributes: command.searchAttributes?.indexedFields ?? {},
      summary: summaryOf(step.command),
      parent: { workflowId: run.start.workflowId, runId: run.start.runId, seq, initiatedEventId },
      parentClosePolicy: command.parentClosePolicy || ParentClosePolicy.PARENT_CLOSE_POLICY_TERMINATE,
    },
    command.workflowIdReusePolicy ?? 0,
  )
  if (child === null) {
    run.history.add({
      type: 'EVENT_TYPE_START_CHILD_WORKFLOW_EXECUTION_FAILED',
      timeMs,
      attributes: {
        startChildWorkflowExecutionFailedEventAttributes: {
          namespace: NAMESPACE,
          namespaceId: requestId(1),
          workflowId,
          workflowType: { name: type },
          cause: 1,
          initiatedEventId,
          workflowTaskCompletedEventId: taskCompletedEventId,
        },
      },
    })
    run.addJob({ resolveChildWorkflowExecutionStart: { seq, failed: { workflowId, workflowType: type, cause: 1 } } })
    return
  }
  run.children.set(seq, child)
  remember(run, 'child-cancellation-type', seq, command.cancellationType ?? 0)
  const startedEventId = run.history.add({
    type: 'EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_STARTED',
    timeMs,
    attributes: {
      childWorkflowExecutionStartedEventAttributes: {
        namespace: NAMESPACE,
        namespaceId: requestId(1),
        initiatedEventId,
        workflowExecution: { workflowId, runId: child.start.runId },
        workflowType: { name: type },
        header: {},
      },
    },
  })
  remember(run, 'child-started', seq, startedEventId)
  run.addJob({ resolveChildWorkflowExecutionStart: { seq, succeeded: { runId: child.start.runId } } })
}

/** Reports a child's end to its parent. The last run of a continue-as-new chain represents the whole chain. */
export function reportChildEnd(world: World, parent: WorkflowRun, child: WorkflowRun): void {
  const place = child.start.parent
  if (place === null || !parent.isOpen || !parent.children.has(place.seq)) return
  const { seq, initiatedEventId } = place
  const { workflowId, firstRunId, type } = child.start
  parent.children.delete(seq)
  const common = {
    namespace: NAMESPACE,
    namespaceId: requestId(1),
    workflowExecution: { workflowId, runId: firstRunId },
    workflowType: { name: type },
    initiatedEventId,
    startedEventId: recall(parent, 'child-started', seq),
  }
  const timeMs = world.nowMs()
  const wrap = (cause: Failure): Failure => childFailure({ cause, workflowId, runId: firstRunId, workflowType: type })
  const { status } = child
  switch (status.kind) {
    case 'completed': {
      const payloads = status.result === null ? {} : { result: { payloads: [status.result] } }
      parent.history.add({
        type: 'EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED',
        timeMs,
        attributes: { childWorkflowExecutionCompletedEventAttributes: { ...common, ...payloads } },
      })
      parent.addJob({ resolveChildWorkflowExecution: { seq, result: { completed: { result: status.result } } } })
      return
    }
    case 'failed': {
      parent.history.add({
        type: 'EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_FAILED',
        timeMs,
        attributes: {
          childWorkflowExecutionFailedEventAttributes: { ...common, failure: status.failure, retryState: 5 },
        },
      })
      const retryState = RetryState.RETRY_POLICY_NOT_SET
      const failure = childFailure({
        cause: status.failure,
        workflowId,
        runId: firstRunId,
        workflowType: type,
        retryState,
      })
      parent.addJob({ resolveChildWorkflowExecution: { seq, result: { failed: { failure } } } })
      return
    }
    case 'cancelled': {
      parent.history.add({
        type: 'EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_CANCELED',
        timeMs,
        attributes: { childWorkflowExecutionCanceledEventAttributes: common },
      })
      const failure = wrap(cancelledFailure('Child Workflow cancelled'))
      parent.addJob({ resolveChildWorkflowExecution: { seq, result: { cancelled: { failure } } } })
      return
    }
    case 'terminated': {
      parent.history.add({
        type: 'EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_TERMINATED',
        timeMs,
        attributes: { childWorkflowExecutionTerminatedEventAttributes: common },
      })
      const failure = wrap({ message: 'Child Workflow terminated', terminatedFailureInfo: {} })
      parent.addJob({ resolveChildWorkflowExecution: { seq, result: { failed: { failure } } } })
      return
    }
    case 'continued-as-new':
    case 'open':
      throw new Error(`${workflowId} has not ended`)
  }
}

export function cancelChild(step: Step, command: coresdk.workflow_commands.ICancelChildWorkflowExecution): void {
  const { run } = step
  const seq = command.childWorkflowSeq ?? 0
  const child = run.children.get(seq)
  if (child === undefined) return
  const type = recall(run, 'child-cancellation-type', seq)
  const { workflowId, firstRunId: runId } = child.start
  const failure = childFailure({
    cause: cancelledFailure('Child Workflow cancelled'),
    workflowId,
    runId,
    workflowType: child.start.type,
  })
  if (type !== ChildWorkflowCancellationType.ABANDON) {
    requestCancelOf(step, { workflowId, reason: command.reason ?? '', childWorkflowOnly: true })
  }
  if (type === ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED) return
  run.children.delete(seq)
  run.addJob({ resolveChildWorkflowExecution: { seq, result: { cancelled: { failure } } } })
}

/** @returns whether an open execution received the request; null if the run itself has ended before */
export function requestCancelOf(
  { world, run, taskCompletedEventId, isLast }: Step,
  target: { workflowId: string; reason: string; childWorkflowOnly: boolean },
): boolean | null {
  const { workflowId, reason, childWorkflowOnly } = target
  const timeMs = world.nowMs()
  const common = { namespace: NAMESPACE, namespaceId: requestId(1), workflowExecution: { workflowId } }
  const initiatedEventId = run.history.add({
    type: 'EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED',
    timeMs,
    attributes: {
      requestCancelExternalWorkflowExecutionInitiatedEventAttributes: {
        ...common,
        childWorkflowOnly,
        reason,
        workflowTaskCompletedEventId: taskCompletedEventId,
      },
    },
  })
  if (isLast) return null
  const found = world.cancel(workflowId, reason)
  run.history.add(
    found
      ? {
          type: 'EVENT_TYPE_EXTERNAL_WORKFLOW_EXECUTION_CANCEL_REQUESTED',
          timeMs,
          attributes: { externalWorkflowExecutionCancelRequestedEventAttributes: { ...common, initiatedEventId } },
        }
      : {
          type: 'EVENT_TYPE_REQUEST_CANCEL_EXTERNAL_WORKFLOW_EXECUTION_FAILED',
          timeMs,
          attributes: {
            requestCancelExternalWorkflowExecutionFailedEventAttributes: {
              ...common,
              cause: 1,
              initiatedEventId,
              workflowTaskCompletedEventId: taskCompletedEventId,
            },
          },
        },
  )
  return found
}

/** Started and cancelled in one workflow task. */
export function answerNeverStarted(
  run: WorkflowRun,
  command: coresdk.workflow_commands.IStartChildWorkflowExecution,
): void {
  const failure = childFailure({
    cause: cancelledFailure('Child Workflow cancelled before it was started'),
    workflowId: command.workflowId ?? '',
    runId: '',
    workflowType: command.workflowType ?? '',
  })
  run.addJob({ resolveChildWorkflowExecutionStart: { seq: command.seq ?? 0, cancelled: { failure } } })
}
