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
  gate: (parent: string, suite: string) => `${parent}/gate/${suite}`,
  gatePart: (gate: string, part: number) => `${gate}/part/${pad(part, 4)}`,
  rft: (parent: string) => `${parent}/rft`,
  reinforce: (parent: string, stage: string) => `${parent}/${stage}`,
  evaluate: (parent: string, name: string) => `${parent}/eval/${name}`,
  rollout: (parent: string, stage: string, iteration: number) => `${parent}/${stage}/${pad(iteration, 4)}`,
  refill: (rollout: string, round: number) => `${rollout}/refill/${round}`,
  group: (rollout: string, taskId: string) => `${rollout}/task/${taskId}`,
  episode: (group: string, index: number) => `${group}/ep/${pad(index, 2)}`,
}

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
