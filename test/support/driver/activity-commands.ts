/** Activities: scheduling, cancellation, and how their ends reach history and workflow. */
import { encodeRetryState } from '@temporalio/common'
import proto from '@temporalio/proto'
import type { coresdk } from '@temporalio/proto'
import { requestId, WORKER_IDENTITY } from '../history-builder.ts'
import type { ActivityEnd } from './activity-run.ts'
import { activityFailure, cancelledFailure, type Failure } from './protos.ts'
import type { WorkflowRun } from './workflow-run.ts'
import { recall, remember, type Step, summaryOf, type World } from './world.ts'

const { ActivityCancellationType } = proto.coresdk.workflow_commands

export function scheduleActivity(step: Step, command: coresdk.workflow_commands.IScheduleActivity): void {
  const { world, run, taskCompletedEventId } = step
  const seq = command.seq ?? 0
  const scheduledEventId = run.history.add({
    type: 'EVENT_TYPE_ACTIVITY_TASK_SCHEDULED',
    timeMs: world.nowMs(),
    userMetadata: step.command.userMetadata,
    attributes: {
      activityTaskScheduledEventAttributes: {
        activityId: command.activityId,
        activityType: { name: command.activityType ?? '' },
        taskQueue: { name: command.taskQueue ?? '', kind: 1 },
        header: { fields: command.headers ?? {} },
        input: { payloads: command.arguments ?? [] },
        scheduleToCloseTimeout: command.scheduleToCloseTimeout,
        scheduleToStartTimeout: command.scheduleToStartTimeout,
        startToCloseTimeout: command.startToCloseTimeout,
        heartbeatTimeout: command.heartbeatTimeout,
        retryPolicy: command.retryPolicy,
        priority: command.priority,
        workflowTaskCompletedEventId: taskCompletedEventId,
        useWorkflowBuildId: true,
      },
    },
  })
  remember(run, 'activity', seq, scheduledEventId)
  remember(run, 'activity-cancellation-type', seq, command.cancellationType ?? ActivityCancellationType.TRY_CANCEL)
  const activity = world.scheduleActivity({
    run,
    command,
    summary: summaryOf(step.command),
    onEnd: (end) => {
      run.activities.delete(seq)
      if (run.isOpen) endActivity({ world, run, command, scheduledEventId, end })
    },
  })
  run.activities.set(seq, activity)
}

function endActivity(input: {
  world: World
  run: WorkflowRun
  command: coresdk.workflow_commands.IScheduleActivity
  scheduledEventId: number
  end: ActivityEnd
}): void {
  const { world, run, command, scheduledEventId, end } = input
  const timeMs = world.nowMs()
  const seq = command.seq ?? 0
  const wrap = (cause: Failure, retryState: Parameters<typeof activityFailure>[0]['retryState']): Failure =>
    activityFailure({
      cause,
      retryState,
      scheduledEventId,
      activityType: command.activityType ?? '',
      activityId: command.activityId ?? '',
    })
  // The server writes the start of the last attempt together with its end.
  const { started } = end
  const startedEventId =
    started === null
      ? 0
      : run.history.add({
          type: 'EVENT_TYPE_ACTIVITY_TASK_STARTED',
          timeMs,
          attributes: {
            activityTaskStartedEventAttributes: {
              scheduledEventId,
              identity: WORKER_IDENTITY,
              requestId: requestId(scheduledEventId),
              attempt: started.attempt,
              ...(started.lastFailure === null ? {} : { lastFailure: started.lastFailure }),
              workerVersion: { buildId: run.start.runId },
            },
          },
        })
  const ids = { scheduledEventId, startedEventId }
  switch (end.kind) {
    case 'completed': {
      run.history.add({
        type: 'EVENT_TYPE_ACTIVITY_TASK_COMPLETED',
        timeMs,
        attributes: {
          activityTaskCompletedEventAttributes: {
            ...ids,
            identity: WORKER_IDENTITY,
            ...(end.result === null ? {} : { result: { payloads: [end.result] } }),
          },
        },
      })
      run.addJob({ resolveActivity: { seq, result: { completed: { result: end.result } } } })
      return
    }
    case 'failed': {
      run.history.add({
        type: 'EVENT_TYPE_ACTIVITY_TASK_FAILED',
        timeMs,
        attributes: {
          activityTaskFailedEventAttributes: {
            ...ids,
            failure: end.failure,
            identity: WORKER_IDENTITY,
            retryState: encodeRetryState(end.retryState),
          },
        },
      })
      run.addJob({ resolveActivity: { seq, result: { failed: { failure: wrap(end.failure, end.retryState) } } } })
      return
    }
    case 'timed-out': {
      run.history.add({
        type: 'EVENT_TYPE_ACTIVITY_TASK_TIMED_OUT',
        timeMs,
        attributes: {
          activityTaskTimedOutEventAttributes: {
            ...ids,
            failure: end.failure,
            retryState: encodeRetryState(end.retryState),
          },
        },
      })
      run.addJob({ resolveActivity: { seq, result: { failed: { failure: wrap(end.failure, end.retryState) } } } })
      return
    }
    case 'cancelled': {
      run.history.add({
        type: 'EVENT_TYPE_ACTIVITY_TASK_CANCELED',
        timeMs,
        attributes: {
          activityTaskCanceledEventAttributes: {
            ...ids,
            latestCancelRequestedEventId: recall(run, 'activity-cancel', seq),
            identity: WORKER_IDENTITY,
          },
        },
      })
      addCancelledActivityJob(run, seq, wrap(end.failure, 'CANCEL_REQUESTED'))
      return
    }
  }
}

function addCancelledActivityJob(run: WorkflowRun, seq: number, failure: Failure): void {
  run.addJob({ resolveActivity: { seq, result: { cancelled: { failure } } } })
}

export function cancelActivity({ world, run, taskCompletedEventId }: Step, seq: number): void {
  const activity = run.activities.get(seq)
  if (activity === undefined) return
  const type = recall(run, 'activity-cancellation-type', seq)
  const scheduledEventId = recall(run, 'activity', seq)
  if (type !== ActivityCancellationType.ABANDON) {
    const eventId = run.history.add({
      type: 'EVENT_TYPE_ACTIVITY_TASK_CANCEL_REQUESTED',
      timeMs: world.nowMs(),
      attributes: {
        activityTaskCancelRequestedEventAttributes: {
          scheduledEventId,
          workflowTaskCompletedEventId: taskCompletedEventId,
        },
      },
    })
    remember(run, 'activity-cancel', seq, eventId)
  }
  if (type === ActivityCancellationType.WAIT_CANCELLATION_COMPLETED) return activity.requestCancel()
  // Core answers at once and forgets the activity.
  activity.abandon()
  run.activities.delete(seq)
  const cause = cancelledFailure('Activity cancelled')
  addCancelledActivityJob(
    run,
    seq,
    activityFailure({
      cause,
      retryState: 'CANCEL_REQUESTED',
      scheduledEventId,
      activityType: activity.type,
      activityId: `${seq}`,
    }),
  )
}

/** Scheduled and cancelled in one workflow task. */
export function answerNeverScheduled(run: WorkflowRun, command: coresdk.workflow_commands.IScheduleActivity): void {
  const failure = activityFailure({
    cause: cancelledFailure('Activity cancelled'),
    retryState: 'CANCEL_REQUESTED',
    scheduledEventId: 0,
    activityType: command.activityType ?? '',
    activityId: command.activityId ?? '',
  })
  addCancelledActivityJob(run, command.seq ?? 0, failure)
}
