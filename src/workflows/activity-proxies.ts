/** Every activity preset, each with its reason. Durations follow temporal.md-style budgets: a wait without a limit is a bug. */
import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow'
import type {
  ArtifactActivities,
  ControlActivities,
  HostActivities,
  SandboxActivities,
  TrainerActivities,
} from '../contracts/activities.types.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'

/** Bookkeeping: seconds at most; five attempts outlast a restart of the worker or a full disk being cleared. */
export const control = proxyActivities<ControlActivities>({
  taskQueue: QUEUES.control,
  startToCloseTimeout: '60s',
  retry: { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' },
})

/** Synthesising thousands of tasks takes minutes; it heartbeats, so a dead worker is noticed in half a minute. */
export const slowControl = proxyActivities<ControlActivities>({
  taskQueue: QUEUES.control,
  startToCloseTimeout: '30m',
  heartbeatTimeout: '30s',
  retry: { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' },
})

/** Placement: any host. A shared queue may hold a backlog, so there is no schedule-to-start limit. */
export const placement = proxyActivities<SandboxActivities>({
  taskQueue: QUEUES.sandbox,
  startToCloseTimeout: '10m',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' },
})

/** Grading starts from a fresh container, so a repetition is safe. 35 minutes = the harness's 1,800 s and 5 minutes around it. */
export const grading = proxyActivities<SandboxActivities>({
  taskQueue: QUEUES.sandbox,
  startToCloseTimeout: '35m',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { maximumAttempts: 3, initialInterval: '1s', maximumInterval: '30s' },
})

/**
 * The host that holds the sandbox. Two minutes without a worker there means that the host is gone (a restarted worker polls
 * the same queue within seconds). 25 minutes = 5 of turns plus one last turn of 15 minutes sampling and its command.
 * Attempts are safe because turns are committed and fenced; three of them, then the episode is placed anew.
 */
export function hostActivities(taskQueue: string) {
  return proxyActivities<Pick<HostActivities, 'advanceEpisode' | 'captureSubmission'>>({
    taskQueue,
    startToCloseTimeout: '25m',
    scheduleToStartTimeout: '2m',
    heartbeatTimeout: '20s',
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: { maximumAttempts: 4, initialInterval: '1s', maximumInterval: '20s' },
  })
}

/** Clean-up tries long; where the host is gone the schedule-to-start limit ends it and the reaper removes the rest by label. */
export function closingActivities(taskQueue: string) {
  return proxyActivities<Pick<HostActivities, 'closeSandbox'>>({
    taskQueue,
    startToCloseTimeout: '2m',
    scheduleToStartTimeout: '2m',
    // Without it a worker killed while closing would hold its episode for the whole two minutes.
    heartbeatTimeout: '20s',
    retry: { maximumAttempts: 10, initialInterval: '1s', maximumInterval: '30s' },
  })
}

/**
 * A training job re-attaches or resumes from its last committed step, so attempts are cheap; 24 hours bound one iteration.
 * The heartbeat comes from a timer and does not depend on the trainer process.
 */
export const training = proxyActivities<TrainerActivities>({
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '24h',
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { maximumAttempts: 20, initialInterval: '1s', maximumInterval: '60s' },
})

/** Publishing may wait for a server that other runs hold: an hour of patience, with the holders named in the failure. */
export const publishing = proxyActivities<TrainerActivities>({
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '1h',
  heartbeatTimeout: '30s',
  retry: { maximumAttempts: 20, initialInterval: '1s', maximumInterval: '30s' },
})

/** Aggregation reads every record of an iteration. */
export const artifacts = proxyActivities<ArtifactActivities>({
  taskQueue: QUEUES.artifacts,
  startToCloseTimeout: '1h',
  heartbeatTimeout: '30s',
  retry: { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' },
})
