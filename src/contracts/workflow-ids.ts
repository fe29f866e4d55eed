/** Workflow ids: the one place that spells them. No attempt numbers: a repetition deduplicates. */
const pad = (value: number, width: number): string => String(value).padStart(width, '0')

export const workflowIds = {
  train: (run: string) => `train/${run}`,
  evaluation: (run: string) => `eval/${run}`,
  /** The root that a run's children are named after. */
  root: ({ run, evaluation }: { run: string; evaluation?: string }) =>
    evaluation === undefined ? workflowIds.train(run) : workflowIds.evaluation(run),
  grading: (run: string) => `grade/${run}`,
  gating: (run: string) => `gate/${run}`,
  /** A round of the watch; the server appends the time. */
  watch: (schedule: string) => `watch/${schedule}`,
  /** A sandbox host, for as long as it is known. */
  host: (host: string) => `host/${host}`,
  /** A client reads a record of a run. */
  reading: (run: string, id: string) => `read/${run}/${id}`,
  gate: (parent: string, suite: string) => `${parent}/gate/${suite}`,
  gatePart: (gate: string, part: number) => `${gate}/part/${pad(part, 4)}`,
  rft: (parent: string) => `${parent}/rft`,
  reinforce: (parent: string, stage: string) => `${parent}/${stage}`,
  evaluate: (parent: string, name: string) => `${parent}/eval/${name}`,
  rollout: (parent: string, stage: string, iteration: number) => `${parent}/${stage}/${pad(iteration, 4)}`,
  refill: (rollout: string, round: number) => `${rollout}/refill/${round}`,
  rolloutPart: (rollout: string, part: number) => `${rollout}/part/${pad(part, 4)}`,
  group: (rollout: string, taskId: string) => `${rollout}/task/${taskId}`,
  episode: (group: string, index: number) => `${group}/ep/${pad(index, 2)}`,
}

/** Workflow type and id prefix of the rounds that look for alarms. */
export const WATCH_TYPE = 'watch'
/** Schedule that starts them; no other schedule of Longhaul may have this id. */
export const ALARM_SCHEDULE = 'longhaul-alarms'

/** Temporal's name for the builds of the control workers together, one of which is current. */
export const DEPLOYMENT = 'longhaul'

/** Workflow type of sandbox hosts. */
export const HOST_TYPE = 'host'

export const QUEUES = {
  control: 'control',
  sandbox: 'sandbox',
  /** Sandboxes to be opened on any host that has a place. */
  placement: 'placement',
  trainer: 'trainer',
  artifacts: 'artifacts',
  /** Pinned to one machine start: the kernel's boot id outlives the worker process, so a restarted worker finds its sandboxes. */
  sandboxHost: (host: string, bootId: string) => `sandbox.${host}.${bootId}`,
} as const
