/** Workflow ids: the one place that spells them (temporal.md §7). No attempt numbers: a repetition deduplicates. */
const pad = (value: number, width: number): string => String(value).padStart(width, '0')

export const workflowIds = {
  train: (run: string) => `train/${run}`,
  evaluation: (run: string) => `eval/${run}`,
  gate: (parent: string, suite: string) => `${parent}/gate/${suite}`,
  rft: (parent: string) => `${parent}/rft`,
  reinforce: (parent: string, stage: string) => `${parent}/${stage}`,
  evaluate: (parent: string, name: string) => `${parent}/eval/${name}`,
  rollout: (parent: string, stage: string, iteration: number) => `${parent}/${stage}/${pad(iteration, 4)}`,
  group: (rollout: string, taskId: string) => `${rollout}/task/${taskId}`,
  episode: (group: string, index: number) => `${group}/ep/${pad(index, 2)}`,
}

export const QUEUES = {
  control: 'control',
  sandbox: 'sandbox',
  trainer: 'trainer',
  artifacts: 'artifacts',
  /** Pinned to one machine start: the kernel's boot id outlives the worker process, so a restarted worker finds its sandboxes. */
  sandboxHost: (host: string, bootId: string) => `sandbox.${host}.${bootId}`,
} as const
