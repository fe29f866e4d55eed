import type { Dependency } from '../../contracts/waits.types.ts'
import { LONGEST_STEP_SILENCE_S } from '../../contracts/step-heartbeat.ts'
import { QUEUES } from '../../contracts/workflow-ids.ts'
import type { ListedHost } from '../hosts.ts'
import {
  type EarlierWorkflow,
  type FailureFacts,
  isDelayed,
  type PausedWorkflow,
  type PendingActivity,
  type PendingWorkflowTask,
  type StuckWorkflow,
} from './pending-activities.ts'

/** Who polls a task queue, as the server remembers it for some minutes. */
export interface QueueState {
  /** ms since 1970; null: the server remembers no poller. */
  lastPollMs: number | null
  /** `pid@host` of the last to poll. */
  lastWorker: string | null
  /** A worker of this queue gives signs of life from other work: it may be full, and full workers do not poll. */
  isBusy: boolean
  /** Hosts that serve it, where all of them are drained. @default none */
  drained?: readonly ListedHost[]
  /** Set by an operator with `temporal task-queue config set`; absent without one. */
  limit?: { perSecond: number; sinceMs: number | null }
}

/** One wait that is longer than it should be, or longer than the asker's patience. */
export interface Finding {
  on: Dependency
  doing: string
  sinceMs: number
  workflowId: string
  activity: string | null
  attempt: number
  error: FailureFacts | null
  /** False: as long as it is allowed to be (tests, commands, a place on busy hosts). */
  isBlocker: boolean
  /** @default what the dependency or the error calls for */
  toDo?: string
}

export interface Clock {
  nowMs: number
  longerThanMs: number
}

/** The SDK sends a heartbeat every 0.8 of the timeout. */
const SILENT_SHARE = 0.9
/** The longest heartbeat timeout that a workflow asks for, but for the steps of many episodes. */
const LONGEST_SILENCE_MS = 30_000
const STEP = 'advanceEpisode'

/** What blocks an activity; null where it makes progress, or has not waited for long enough. */
export function judgeActivity(activity: PendingActivity, queue: QueueState | null, clock: Clock): Finding | null {
  const finding = judgeByState(activity, queue, clock)
  return finding !== null && clock.nowMs - finding.sinceMs > clock.longerThanMs ? finding : null
}

/** A worker runs it and heartbeats. */
export function isAlive(
  { state, startedMs, lastHeartbeatMs, heartbeatTimeoutMs }: PendingActivity,
  nowMs: number,
): boolean {
  const lastWordMs = Math.max(startedMs ?? 0, lastHeartbeatMs ?? 0)
  return state === 'started' && nowMs - lastWordMs <= SILENT_SHARE * (heartbeatTimeoutMs ?? 0)
}

function judgeByState(activity: PendingActivity, queue: QueueState | null, clock: Clock): Finding | null {
  switch (activity.state) {
    case 'paused':
      return found(activity, {
        on: { kind: 'person', name: 'the operator who paused the activity in Temporal' },
        doing: `${activity.activity}, paused`,
        sinceMs: activity.pausedMs ?? activity.scheduledMs,
        toDo: command('unpause', activity),
      })
    case 'backing-off':
      return isDelayed(activity, clock.nowMs) ? judgeDelayed(activity) : judgeFailing(activity)
    case 'queued':
      return judgeQueued(activity, queue)
    case 'started':
      return judgeStarted(activity, clock)
  }
}

/** Its options are the reason, and not what the last attempt failed with. */
function judgeDelayed(activity: PendingActivity): Finding {
  const { activity: name, nextAttemptMs, lastEndMs, lastFailure, scheduledMs } = activity
  return found(activity, {
    on: { kind: 'person', name: 'the operator who gave the activity longer pauses between its attempts in Temporal' },
    doing: `${name}, waiting for its next attempt at ${new Date(nextAttemptMs ?? 0).toISOString()}`,
    sinceMs: lastEndMs ?? scheduledMs,
    error: lastFailure,
    // A reset keeps the options, also where it is told to restore them, and the attempt after it would wait as long.
    toDo: `${command('update-options', activity)} --retry-initial-interval 1s --retry-maximum-interval 30s`,
  })
}

function judgeQueued(activity: PendingActivity, queue: QueueState | null): Finding {
  const { scheduledMs, attempt, lastFailure, lastHeartbeatMs } = activity
  const { drained = [] } = queue ?? {}
  if (drained.length > 0) {
    const hosts = drained.map(({ host, drain }) => `${host} since ${drain?.since ?? 'now'}`)
    return found(activity, {
      on: { kind: 'host', name: drained.map(({ host }) => host).join(', ') },
      doing: `${activity.activity}, waiting for a host that takes work`,
      sinceMs: scheduledMs,
      error: { code: 'Host.Closed', message: `every sandbox host is drained: ${hosts.join(', ')}` },
    })
  }
  const { limit } = queue ?? {}
  if (limit !== undefined && limit.perSecond < SLOWEST_QUEUE) {
    return found(activity, {
      on: { kind: 'person', name: `the operator who limited the queue ${activity.queue} in Temporal` },
      doing: `${activity.activity}, waiting to be started; the limit is ${limit.perSecond} a second`,
      sinceMs: Math.max(scheduledMs, limit.sinceMs ?? 0),
      toDo: `temporal task-queue config set --task-queue ${activity.queue} --task-queue-type activity --queue-rps-limit default`,
    })
  }
  const isServed = queue !== null && (queue.isBusy || (queue.lastPollMs ?? 0) >= scheduledMs)
  // After a worker has died the wait counts from its last heartbeat, not from the retry, which no worker has taken.
  const sinceMs = attempt > 1 && !isServed ? (lastHeartbeatMs ?? scheduledMs) : scheduledMs
  return found(activity, {
    on: { kind: 'worker', name: activity.queue },
    doing: `${activity.activity}, waiting to be started`,
    sinceMs,
    error: isServed ? lastFailure : { code: null, message: noWorker(activity.queue, queue) },
    isBlocker: !isServed,
  })
}

/** No queue of ours is so slow on its own. */
const SLOWEST_QUEUE = 1

/** An operator can move an activity to any other queue. */
function isOurs(queue: string): boolean {
  const [role] = queue.split('.')
  return Object.values<unknown>(QUEUES).includes(role)
}

/** A reset schedules the activity as the workflow had asked for it; the CLI of server 1.31 restores the queue in no other way. */
function moveBack({ workflowId }: PendingActivity): string {
  return `a person has moved it. Schedule it anew in its own queue: temporal workflow reset --workflow-id ${workflowId} --type LastWorkflowTask --reason moved`
}

function command(verb: string, { workflowId, activityId }: PendingActivity): string {
  return `temporal activity ${verb} --workflow-id ${workflowId} --activity-id ${activityId}`
}

/** What the SDK says where a worker is given an activity of another role. */
const NOT_OF_THIS_WORKER = / is not registered on this Worker/

function judgeStarted(activity: PendingActivity, clock: Clock): Finding | null {
  const { heartbeat, heartbeatTimeoutMs, lastHeartbeatMs, attempt, queue } = activity
  const startedMs = activity.startedMs ?? activity.scheduledMs
  const isOwnWord = lastHeartbeatMs !== null && lastHeartbeatMs >= startedMs
  const lastWordMs = isOwnWord ? lastHeartbeatMs : startedMs
  // An operator can lengthen or remove it, and then the server gives the attempt up after hours or days.
  const longestMs = activity.activity === STEP ? LONGEST_STEP_SILENCE_S * 1_000 : LONGEST_SILENCE_MS
  const isPatient = heartbeatTimeoutMs === null || heartbeatTimeoutMs > longestMs
  const silenceMs = isPatient ? LONGEST_SILENCE_MS : heartbeatTimeoutMs
  if (clock.nowMs - lastWordMs > SILENT_SHARE * silenceMs) {
    const worker = activity.worker ?? 'its worker'
    const message = `${worker} has sent no heartbeat since ${new Date(lastWordMs).toISOString()}`
    return found(activity, {
      on: { kind: 'worker', name: queue },
      doing: activity.activity,
      sinceMs: lastWordMs,
      error: { code: null, message },
      ...(isPatient ? { toDo: `${command('update-options', activity)} --heartbeat-timeout 30s` } : {}),
    })
  }
  const waiting = isOwnWord ? judgeWait(activity, clock) : null
  if (waiting !== null) return waiting
  // It has failed, and the new attempt has not run for long enough to say that the failure is over.
  if (attempt > 1 && clock.nowMs - startedMs < clock.longerThanMs) return judgeFailing(activity)
  if (isOwnWord && heartbeat?.wait) return null
  return found(activity, {
    on: { kind: 'worker', name: queue },
    doing: activity.activity,
    sinceMs: startedMs,
    isBlocker: false,
  })
}

/** What the activity itself says in its heartbeats. */
function judgeWait(activity: PendingActivity, { nowMs, longerThanMs }: Clock): Finding | null {
  const wait = activity.heartbeat?.wait ?? null
  if (wait === null) return null
  const { on, doing, sinceMs, trouble, expectedUntilMs } = wait
  if (trouble !== null && nowMs - trouble.sinceMs > longerThanMs) {
    return found(activity, { on, doing, sinceMs: trouble.sinceMs, error: trouble })
  }
  if (nowMs - sinceMs <= longerThanMs) return null
  const isBlocker = expectedUntilMs === null || nowMs > expectedUntilMs
  return found(activity, { on, doing, sinceMs, error: trouble ?? activity.lastFailure, isBlocker })
}

function judgeFailing(activity: PendingActivity): Finding {
  const { heartbeat, lastFailure, lastEndMs, scheduledMs } = activity
  const failing = heartbeat?.failing ?? null
  return found(activity, {
    on: failing?.on ?? { kind: 'worker', name: activity.queue },
    doing: failing?.doing ?? `${activity.activity}, between two attempts`,
    sinceMs: failing?.sinceMs ?? activity.lastHeartbeatMs ?? lastEndMs ?? scheduledMs,
    error: lastFailure ?? failing,
    ...(NOT_OF_THIS_WORKER.test(lastFailure?.message ?? '')
      ? {
          toDo: `${moveBack(activity)}; if nobody has, restart the workers of ${activity.queue} with the version of the others`,
        }
      : {}),
  })
}

/** A workflow task that does not complete: there is no control worker, or the workflow code throws. */
export function judgeWorkflowTask(task: PendingWorkflowTask, queue: QueueState | null, clock: Clock): Finding | null {
  const { nowMs, longerThanMs } = clock
  const { failure = null } = task
  const sinceMs = Math.min(failure?.sinceMs ?? task.sinceMs, task.sinceMs)
  if (nowMs - sinceMs <= longerThanMs) return null
  // Between two tries of a task that fails its worker polls, and no new task is due.
  const isServed = (queue?.lastPollMs ?? 0) >= sinceMs
  const why = failure?.message ?? "the workflow's code or its history is broken"
  const failed = `its workflow task has been tried ${task.attempt} times: ${why}`
  return {
    on: isServed ? { kind: 'workflow', name: task.workflowId } : { kind: 'worker', name: task.queue },
    doing: 'the next step of the workflow',
    sinceMs,
    workflowId: task.workflowId,
    activity: null,
    attempt: task.attempt,
    error: { code: null, message: isServed ? failed : noWorker(task.queue, queue) },
    isBlocker: !isServed || task.attempt > 1,
  }
}

/** The root waits for its end; what it waits for itself is found like everything else that is open. */
export function judgeEarlier({ workflowId, sinceMs }: EarlierWorkflow, clock: Clock): Finding | null {
  if (clock.nowMs - sinceMs <= clock.longerThanMs) return null
  return ofWorkflow(workflowId, {
    on: { kind: 'workflow', name: workflowId },
    doing: 'waiting for the end of an earlier execution',
    sinceMs,
    error: null,
    // It closes its sandboxes, or plays on after a reset of the root: both may last.
    isBlocker: false,
    toDo: `nothing: it closes its sandboxes, or plays on after a reset, and the run takes its records. To end it at once: temporal workflow terminate --workflow-id ${workflowId}`,
  })
}

/** A reset builds the workflow's state anew from the history that the server has. */
export function judgeStuck({ workflowId, sinceMs }: StuckWorkflow): Finding {
  return ofWorkflow(workflowId, {
    on: { kind: 'workflow', name: workflowId },
    doing: 'nothing: no activity, child, timer or task of it is open',
    sinceMs,
    error: {
      code: null,
      message: 'its control worker remembers more than the server, whose database was restored to an earlier state',
    },
    isBlocker: true,
    toDo: `restart the control workers, then: temporal workflow reset --workflow-id ${workflowId} --type LastWorkflowTask --reason stuck`,
  })
}

/** Nothing below a paused workflow begins or ends until a person continues it. */
export function judgePaused({ workflowId, sinceMs }: PausedWorkflow, clock: Clock): Finding | null {
  if (clock.nowMs - sinceMs <= clock.longerThanMs) return null
  return ofWorkflow(workflowId, {
    on: { kind: 'person', name: 'the operator who paused the workflow in Temporal' },
    doing: `${workflowId}, paused`,
    sinceMs,
    error: null,
    isBlocker: true,
    toDo: `temporal workflow unpause --workflow-id ${workflowId}`,
  })
}

/** The root did not answer its own query: no worker runs workflows, or a slow one that still polls. */
export function judgeSilence(workflowId: string, queue: QueueState | null, clock: Clock): Finding | null {
  const sinceMs = queue?.lastPollMs ?? clock.nowMs - clock.longerThanMs
  if (clock.nowMs - sinceMs < clock.longerThanMs) return null
  return ofWorkflow(workflowId, {
    on: { kind: 'worker', name: QUEUES.control },
    doing: 'the next step of the workflow',
    sinceMs,
    error: { code: null, message: noWorker(QUEUES.control, queue) },
    isBlocker: true,
  })
}

/** Of the workflow itself, not of one of its activities. */
function ofWorkflow(workflowId: string, facts: Omit<Finding, 'workflowId' | 'activity' | 'attempt'>): Finding {
  return { ...facts, workflowId, activity: null, attempt: 1 }
}

function noWorker(name: string, queue: QueueState | null): string {
  if (queue === null || queue.lastPollMs === null) return `no worker polls queue ${name}`
  const at = new Date(queue.lastPollMs).toISOString()
  const last = queue.lastWorker ?? 'unknown'
  return `no worker polls queue ${name} since ${at}: the last, ${last}, is gone, or other runs occupy all its slots`
}

function found(
  pending: PendingActivity,
  facts: Pick<Finding, 'on' | 'doing' | 'sinceMs' | 'toDo'> & { error?: FailureFacts | null; isBlocker?: boolean },
): Finding {
  const { error = null, isBlocker = true, ...rest } = facts
  const plain = error === null ? null : { code: error.code, message: error.message }
  const { workflowId, activity, attempt, queue } = pending
  const isMoved = rest.on.kind === 'worker' && rest.on.name === queue && !isOurs(queue)
  return {
    ...rest,
    ...(isMoved ? { toDo: moveBack(pending) } : {}),
    workflowId,
    activity,
    attempt,
    error: plain,
    isBlocker,
  }
}
