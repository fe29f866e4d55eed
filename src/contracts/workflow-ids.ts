/** Workflow ids: the one place that spells them. No attempt numbers: a repetition deduplicates. */
const pad = (value: number, width: number): string => String(value).padStart(width, '0')

export const workflowIds = {
  train: (run: string) => `train/${run}`,
  evaluation: (run: string) => `eval/${run}`,
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

/** Where in a run a workflow stands, read from its id; null for what the id does not say. */
export interface WorkflowPlace {
  stage: string | null
  iteration: number | null
  task: string | null
  episode: number | null
}

/** Understands the ids above; of any other id it says nothing. */
export function placeOfWorkflow(workflowId: string): WorkflowPlace {
  const [, stage, iteration, task, episode] =
    /^(?:train|eval|gate)\/[^/]+\/((?:gate\/|eval\/)?[^/]+)(?:\/(\d{4})(?:\/refill\/\d+)?)?(?:\/task\/(.+?))?(?:\/ep\/(\d+))?$/.exec(
      workflowId,
    ) ?? []
  return {
    stage: stage ?? null,
    iteration: iteration === undefined ? null : Number(iteration),
    task: task ?? null,
    episode: episode === undefined ? null : Number(episode),
  }
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
