/**
 * How long each kind of activity may wait, run and stay silent, each with its reason: a wait without a limit is a bug, and a
 * silent one too, so every activity beats. Attempts and back-off outlast what usually passes by itself.
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/common'
import { QUEUES } from '../contracts/workflow-ids.ts'

/**
 * A backlog on a shared queue is normal, and so is a weekend without a worker: both are named by the run's blockers and wait.
 * After a week nobody is coming.
 */
const SHARED_QUEUE_WAIT = '7 days'

/** They outlast a restart of the worker or a full disk being cleared. */
const FIVE_ATTEMPTS = { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' } as const

/** Bookkeeping: seconds at most, and a store that hangs fails by its own deadline before the minute is over. */
export const CONTROL = {
  taskQueue: QUEUES.control,
  startToCloseTimeout: '60s',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '20s',
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/** Synthesising thousands of tasks takes minutes. */
export const SLOW_CONTROL = {
  taskQueue: QUEUES.control,
  startToCloseTimeout: '30m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/**
 * Placement: any host. A sandbox waits for a place as long as others have all of them, which may be as long as their episodes last:
 * whatever else an opening does has deadlines of its own, and a worker that dies is noticed by its heartbeat.
 */
export const PLACEMENT = {
  taskQueue: QUEUES.placement,
  startToCloseTimeout: SHARED_QUEUE_WAIT,
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/** Grading starts from a fresh container, so a repetition is safe. 35 minutes = the harness's 1,800 s and 5 minutes around it. */
export const GRADING = {
  taskQueue: QUEUES.sandbox,
  startToCloseTimeout: '35m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  // As many as elsewhere: a full disk is cleared meanwhile, and a verdict is worth the wait.
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/**
 * Gradings of one task, one after another. 80 minutes = 10 in which another one is begun, and one last that takes the harness's
 * 1,800 s twice (what may be an accident is run again) with five minutes around each.
 */
export const GATING = { ...GRADING, startToCloseTimeout: '80m' } as const satisfies ActivityOptions

/**
 * The host that holds the sandbox. Two minutes without a worker there means that the host is gone (a restarted worker polls
 * the same queue within seconds). 25 minutes = 5 of turns plus one last turn of 15 minutes sampling and its command.
 * Attempts are safe because turns are committed and fenced; three of them, then the episode is placed anew.
 */
export const HOST = {
  startToCloseTimeout: '25m',
  scheduleToStartTimeout: '2m',
  heartbeatTimeout: '20s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { maximumAttempts: 4, initialInterval: '1s', maximumInterval: '20s' },
} as const satisfies ActivityOptions

/** Clean-up tries long; where the host is gone the schedule-to-start limit ends it and the reaper removes the rest by label. */
export const CLOSING = {
  startToCloseTimeout: '2m',
  scheduleToStartTimeout: '2m',
  // Without it a worker killed while closing would hold its episode for the whole two minutes.
  heartbeatTimeout: '20s',
  retry: { maximumAttempts: 10, initialInterval: '1s', maximumInterval: '30s' },
} as const satisfies ActivityOptions

/**
 * A training job re-attaches or resumes from its last committed step, so attempts are cheap; 24 hours bound one iteration.
 * The heartbeat comes from a timer and does not depend on the trainer process.
 */
export const TRAINING = {
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '24h',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { maximumAttempts: 20, initialInterval: '1s', maximumInterval: '60s' },
} as const satisfies ActivityOptions

/** Publishing may wait for a server that other runs hold: an hour of patience, with the holders named in the failure. */
export const PUBLISHING = {
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '1h',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: { maximumAttempts: 20, initialInterval: '1s', maximumInterval: '30s' },
} as const satisfies ActivityOptions

/** Aggregation reads every record of an iteration. */
export const ARTIFACTS = {
  taskQueue: QUEUES.artifacts,
  startToCloseTimeout: '1h',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions
