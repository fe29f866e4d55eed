/**
 * How long each kind of activity may wait, run and stay silent, each with its reason: a wait without a limit is a bug, and a
 * silent one too, so every activity beats. Attempts and back-off outlast what usually passes by itself.
 *
 * A dead worker is found by its missing heartbeats, and every part of an activity has a deadline of its own. The limit on a whole
 * attempt comes after all of them: it ends only what hangs by a bug. `docs/timeouts.md` has the sums, a test keeps them true.
 */
import { ActivityCancellationType, type ActivityOptions } from '@temporalio/common'
import { QUEUES } from '../contracts/workflow-ids.ts'

/**
 * A backlog on a shared queue is normal, and so is a weekend without a worker: the run waits, and its blockers name both.
 * After a week without a worker the run fails.
 */
const SHARED_QUEUE_WAIT = '7 days'

/** Activities inherit the priority of their workflow, and episodes have a low one: on the queues that they share with gates and bookkeeping
 *  all wait alike. */
const ALIKE = { priority: { priorityKey: 3 } } as const

/** They outlast a restart of the worker. */
const FIVE_ATTEMPTS = { maximumAttempts: 5, initialInterval: '1s', maximumInterval: '30s' } as const

/** As the server spells it in a retry policy. Where a limit is hours, one attempt that hangs is enough: a second would hang too. */
const ATTEMPT_TIMED_OUT = ['TemporalTimeout:StartToClose']

/**
 * Bookkeeping: seconds, and an hour more where the artifact store is away or full (`LONGHAUL_STORE_PATIENCE_S`); each of its operations
 * has a deadline of its own. While the network is silent the server hands attempts to connections that are dead. Heartbeats are shorter
 * here than elsewhere, so one more attempt outlasts the same silence.
 */
export const CONTROL = {
  taskQueue: QUEUES.control,
  ...ALIKE,
  startToCloseTimeout: '70m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '20s',
  retry: { ...FIVE_ATTEMPTS, maximumAttempts: 6, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/** Synthesising thousands of tasks takes minutes, and so does the first import of a base policy: its next attempt goes on where this one was. The store may be away here too. */
export const SLOW_CONTROL = {
  taskQueue: QUEUES.control,
  startToCloseTimeout: '100m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/**
 * One alarm to its receiver, which has 15 seconds for each answer. Six attempts over a minute outlast a restart of a receiver; a
 * longer outage is for the next round of the watch, so that one silent receiver does not hold up the look at everything else.
 */
export const ALARMS = {
  taskQueue: QUEUES.control,
  startToCloseTimeout: '60s',
  scheduleToStartTimeout: '10m',
  heartbeatTimeout: '20s',
  retry: { maximumAttempts: 6, initialInterval: '2s', maximumInterval: '30s' },
} as const satisfies ActivityOptions

/**
 * Placement: any host. A sandbox waits for capacity as long as other episodes occupy the hosts. The other steps of opening one
 * have deadlines of their own, and a missing heartbeat reveals a dead worker.
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
 * Grading starts from a fresh container, so a repetition is safe. The harness's own limit ends tests after 1,800 s, and those of the
 * audit before them as well. An attempt runs both once, twice where the log holds no results; each time it waits for a place among the four gradings of a host behind up to
 * twenty others. Tests over their limit end the attempt; the second that sees it gives the verdict.
 */
export const GRADING = {
  taskQueue: QUEUES.sandbox,
  ...ALIKE,
  startToCloseTimeout: '18h',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  // As many as elsewhere: a full disk is cleared meanwhile, and a verdict is worth the wait. A whole attempt that hangs is not.
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions

/** A look for images: thirty seconds, and one last request to an engine that has stopped answering. */
export const IMAGES = {
  taskQueue: QUEUES.sandbox,
  startToCloseTimeout: '2m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  // As many as a gate has: each host may have what another lacks.
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/**
 * Gradings of one task, one after another: ten minutes in which another one is begun, and one last like any other grading. Each
 * is a record, so an attempt that ends in between is only continued.
 */
export const GATING = {
  ...GRADING,
  startToCloseTimeout: '19h',
  retry: FIVE_ATTEMPTS,
} as const satisfies ActivityOptions

/**
 * The host that holds the sandbox. Two minutes without a worker there means that the host is gone (a restarted worker polls
 * the same queue within seconds). Six hours = the longest replay of an episode, five minutes of turns, and one last turn.
 * Attempts are safe because turns are committed and fenced; four of them, then the episode is placed anew.
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

/** Clean-up tries long; where the host is gone the schedule-to-start limit ends it and the reaper removes the rest by label. */
export const CLOSING = {
  startToCloseTimeout: '2m',
  scheduleToStartTimeout: '2m',
  // Without it a worker killed while closing would hold its episode for the whole two minutes.
  heartbeatTimeout: '20s',
  retry: { maximumAttempts: 10, initialInterval: '1s', maximumInterval: '30s' },
} as const satisfies ActivityOptions

/**
 * A sandbox host says what it holds. An attempt ends by itself twice a day, and with its worker. Ten minutes without a worker mean that the
 * host has left; a worker that comes back later begins anew.
 */
export const ATTENDANCE = {
  startToCloseTimeout: '24h',
  scheduleToStartTimeout: '10m',
  heartbeatTimeout: '20s',
  // Another machine took the name over: the worker of the first may be gone.
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  // A worker that crashes again and again is its supervisor's matter; each attempt costs one of these.
  retry: { maximumAttempts: 1_000, initialInterval: '1s', maximumInterval: '10s' },
} as const satisfies ActivityOptions

/**
 * A training job re-attaches or resumes from its last committed step, so attempts are cheap. Fourteen days = a week in the queue of a
 * scheduler and the longest job that a recipe may ask for. The heartbeat comes from a timer and does not depend on the trainer process.
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
 * Publishing waits for people: one restarts the servers on the new policy, another run gives a full server back. Two weeks of short
 * attempts, so that a look at the pending activity says at any moment what is missing; then the last one's code ends the run.
 * Failures that no restart can repair end earlier: `endOfWaiting`. An attempt may first have to compute the reference
 * log-probabilities that the servers are compared with, which is a job of the trainer.
 */
export const PUBLISHING = {
  taskQueue: QUEUES.trainer,
  startToCloseTimeout: '14 days',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  scheduleToCloseTimeout: '14 days',
  heartbeatTimeout: '30s',
  // One a minute for two weeks, and some.
  retry: { maximumAttempts: 25_000, initialInterval: '1s', maximumInterval: '60s' },
} as const satisfies ActivityOptions

/** Aggregation reads every record of an iteration, in an hour at most beside an hour without the store. */
export const ARTIFACTS = {
  taskQueue: QUEUES.artifacts,
  startToCloseTimeout: '130m',
  scheduleToStartTimeout: SHARED_QUEUE_WAIT,
  heartbeatTimeout: '30s',
  retry: { ...FIVE_ATTEMPTS, nonRetryableErrorTypes: ATTEMPT_TIMED_OUT },
} as const satisfies ActivityOptions
