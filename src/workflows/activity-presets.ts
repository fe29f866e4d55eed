/**
 * Limits on how long each kind of activity may wait, run and stay silent, each with its reason. A wait without a limit is a bug, and so
 * is a silent one, so every activity sends heartbeats. Attempts and back-off outlast the failures that usually pass.
 * Missing heartbeats reveal a dead worker, and every part of an activity has its own deadline. The limit on a whole attempt is longer
 * than all of them, so it only ends an attempt that hangs because of a bug. `docs/timeouts.md` has the sums, and a test keeps them
 * true.
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/common'
import { QUEUES } from '../contracts/workflow-ids.ts'

/**
 * A backlog on a shared queue is normal, and so is a weekend without a worker: the run waits, and its blockers name both. After a week
 * without a worker the run fails.
 */
const SHARED_QUEUE_WAIT = '7 days'

/** Activities inherit the priority of their workflow, and that of episodes is low. This gives all activities the same priority on
 *  the queues that episodes share with gates and bookkeeping. */
const ALIKE = { priority: { priorityKey: 3 } } as const

/** The attempts outlast a restart of the worker. */
const FIVE_ATTEMPTS = { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' } as const

/** The server's spelling in a retry policy. If a limit is hours long, one attempt that hangs is enough, because a second would hang
 *  too. */
const ATTEMPT_TIMED_OUT = ['TemporalTimeout:StartToClose']

/**
 * Bookkeeping takes seconds, and an hour more if the artifact store is unavailable or full (`LONGHAUL_STORE_PATIENCE_S`). Each of its
 * operations has its own deadline. During a network outage the server hands attempts to dead connections. Heartbeat timeouts are
 * shorter here than elsewhere, so one more attempt outlasts the same outage.
 */
export const CONTROL = {
  taskQueue: QUEUES.control,
  ...ALIKE,
  startToCloseTimeout: '70m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '20s',
  retry: { ...FIVE_ATTEMPTS, maximumAttempts: 6, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/** Synthesising thousands of tasks takes minutes. So does the first import of a base policy, which the next attempt continues. The
 *  store may be unavailable here too. */
export const SLOW_CONTROL = {
  taskQueue: QUEUES.control,
  startToCloseTimeout: '100m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/**
 * Sends one alarm to its receiver, which has 15 seconds for each answer. Six attempts over a minute outlast a restart of the receiver.
 * A longer outage is left to the next round of the watch, so that one silent receiver does not delay the check of everything else.
 */
export const ALARMS = {
  taskQueue: QUEUES.control,
  startToCloseTimeout: '60s',
  scheduleToStartTimeout: '10m',
  heartbeatTimeout: '20s',
  retry: { maximumAttempts: 6, initialInterval: '2s', maximumInterval: '30s' },
} as const satisfies ActivityOptions

/**
 * Placement runs on any host. A sandbox waits for capacity as long as other episodes occupy the hosts. The other steps of opening one
 * have their own deadlines, and a missing heartbeat reveals a dead worker.
 */
export const PLACEMENT = {
  taskQueue: QUEUES.placement,
  startToCloseTimeout: SHARED_QUEUE_WAIT,
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/**
 * Grading starts from a fresh container, so it can be repeated. The harness's own limit ends tests after 1,800 s, and it also applies
 * to the audit's tests before them. An attempt runs both once, or twice if the log holds no results. Each time it waits behind up to
 * twenty others for one of the host's four grading slots. Tests over their limit end the attempt; the second attempt that exceeds the
 * limit gives the verdict.
 */
export const GRADING = {
  taskQueue: QUEUES.sandbox,
  ...ALIKE,
  startToCloseTimeout: '18h',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  // As many attempts as elsewhere: a full disk may be cleared meanwhile, and a verdict is worth the wait. A whole attempt that hangs is
  // not retried.
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/** A check for images takes thirty seconds, plus one last request to a silent engine. */
export const IMAGES = {
  taskQueue: QUEUES.sandbox,
  startToCloseTimeout: '2m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  // As many attempts as a gate has, because each host may have an image that another lacks.
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/**
 * Gradings of one task, one after another: during ten minutes further ones are started, and the last may take as long as any other
 * grading. Each result is a record, so the next attempt continues an interrupted one.
 */
export const GATING = {
  ...GRADING,
  startToCloseTimeout: '19h',
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/**
 * Runs on the host that holds the sandbox. Two minutes without a worker on its queue mean that the host is gone, because a restarted
 * worker polls the same queue within seconds. Six hours are the longest replay of an episode, five minutes of turns, and one last turn.
 * Attempts are safe because turns are committed and fenced. After four attempts the episode is placed again.
 */
export const HOST = {
  startToCloseTimeout: '6h',
  scheduleToStartTimeout: '2m',
  heartbeatTimeout: '20s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: {
    maximumAttempts: 4,
    initialInterval: '1s',
    maximumInterval: '20s',
    nonRetryableErrorTypes: ATTEMPT_TIMED_OUT,
  },
} as const satisfies ActivityOptions

/** Clean-up gets many attempts. If the host is gone, the schedule-to-start limit ends it, and the reaper removes the resources by
 *  label. */
export const CLOSING = {
  startToCloseTimeout: '2m',
  scheduleToStartTimeout: '2m',
  // Without it, a worker that is killed while closing would hold its episode for the whole two minutes.
  heartbeatTimeout: '20s',
  retry: { maximumAttempts: 10, initialInterval: '1s', maximumInterval: '30s' },
} as const satisfies ActivityOptions

/**
 * Reports what a sandbox host holds. An attempt ends on its own twice a day, and with its worker. After ten minutes without a worker
 * the host counts as gone, and a worker that returns later starts anew.
 */
export const ATTENDANCE = {
  startToCloseTimeout: '24h',
  scheduleToStartTimeout: '10m',
  heartbeatTimeout: '20s',
  // Another machine has taken over the name, so the first machine's worker may be gone.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  // A worker that crashes repeatedly is its supervisor's responsibility. Each crash costs one attempt.
  retry: { maximumAttempts: 1_000, initialInterval: '1s', maximumInterval: '10s' },
} as const satisfies ActivityOptions

/**
 * A training job re-attaches, or resumes from its last committed step, so attempts are cheap. Fourteen days are a week in a scheduler's
 * queue plus the longest job that a recipe may request. The heartbeat comes from a timer and does not depend on the trainer process.
 */
export const TRAINING = {
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '14 days',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: {
    maximumAttempts: 20,
    initialInterval: '1s',
    maximumInterval: '60s',
    nonRetryableErrorTypes: ATTEMPT_TIMED_OUT,
  },
} as const satisfies ActivityOptions

/**
 * Publishing waits for operators or other runs: an operator restarts the servers on the new policy, or another run releases a full
 * server. Two weeks of short attempts, so that the pending activity always shows what is missing. Then the last attempt's code ends the
 * run. Failures that no restart can fix end earlier: `endOfWaiting`. An attempt may first compute the reference log-probabilities that
 * the servers are compared with, which is a job of the trainer.
 */
export const PUBLISHING = {
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '14 days',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  scheduleToCloseTimeout: '14 days',
  heartbeatTimeout: '30s',
  // One attempt a minute for two weeks, with a margin.
  retry: { maximumAttempts: 25_000, initialInterval: '1s', maximumInterval: '60s' },
} as const satisfies ActivityOptions

/** Aggregation reads every record of an iteration within an hour, plus an hour without the store. */
export const ARTIFACTS = {
  taskQueue: QUEUES.artifacts,
  startToCloseTimeout: '130m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions
