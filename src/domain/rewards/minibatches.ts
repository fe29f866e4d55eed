/**
 * Trajectories of each mini-batch: K = max(1, round(n / batch)), half up, near-equal, the larger ones first. Nothing is
 * thrown away and nothing is padded. Empty for no trajectories.
 */
export function splitIntoMinibatches({ trajectories, batch }: { trajectories: number; batch: number }): number[] {
  if (trajectories === 0) return []
  // More parts than trajectories cannot be: a mini-batch without a row has no loss.
  const parts = Math.min(trajectories, Math.max(1, Math.floor(trajectories / batch + 0.5)))
  return splitEvenly({ count: trajectories, parts })
}

/** Parts that differ by at most one, the larger first. */
export function splitEvenly({ count, parts }: { count: number; parts: number }): number[] {
  const smaller = Math.floor(count / parts)
  const larger = count % parts
  return Array.from({ length: parts }, (_, index) => smaller + (index < larger ? 1 : 0))
}

/**
 * Trajectories of each mini-batch in the given order, as many as hold up to `budget` loss tokens, one at least (C3PO,
 * arXiv 2506.14731). The trainer divides by the budget, so a mini-batch that fills it less makes a smaller step.
 */
export function splitByTokens({ lossTokens, budget }: { lossTokens: readonly number[]; budget: number }): number[] {
  const sizes: number[] = []
  let left = 0
  for (const tokens of lossTokens) {
    if (sizes.length > 0 && tokens <= left) {
      sizes[sizes.length - 1] = (sizes.at(-1) ?? 0) + 1
      left -= tokens
    } else {
      sizes.push(1)
      left = budget - tokens
    }
  }
  return sizes
}

/** One job for all mini-batches. */
export function planOneJob({ minibatches, epochs }: { minibatches: number[]; epochs: number }): JobPlan {
  const steps = minibatches.length * epochs
  const trained = minibatches.reduce((sum, size) => sum + size, 0)
  return { jobs: steps === 0 ? [] : [{ minibatches, steps }], totalSteps: steps, trained }
}

export interface PlanJobsInput {
  trajectories: number
  /** Trajectories per optimizer step. */
  batch: number
  epochs: number
  /** Optimizer steps of one training job; null = one job for everything. */
  stepsPerJob: number | null
  /** Optimizer steps at most; null = what the data gives. */
  maxSteps: number | null
}

/** The same in whole pairs: two trajectories stay in one mini-batch. */
export function planPairs(input: PlanJobsInput): JobPlan {
  const plan = planJobs({ ...input, trajectories: input.trajectories / 2, batch: input.batch / 2 })
  const jobs = plan.jobs.map((job) => ({ ...job, minibatches: job.minibatches.map((pairs) => 2 * pairs) }))
  return { ...plan, jobs, trained: 2 * plan.trained }
}

export interface PlannedJob {
  /** Trajectory counts of its mini-batches, in order. */
  minibatches: number[]
  /** Optimizer steps: mini-batches × epochs. */
  steps: number
}

export interface JobPlan {
  jobs: PlannedJob[]
  /** Steps of all jobs: what the learning-rate schedule counts to. */
  totalSteps: number
  /** Trajectories of the shuffled order that train; the rest fell to `maxSteps`. */
  trained: number
}

/**
 * Cuts an epoch into jobs. Every job repeats its own file `epochs` times, so that an episode stays in one batch; a job is
 * therefore a slice of mini-batches, never of epochs.
 */
export function planJobs({ trajectories, batch, epochs, stepsPerJob, maxSteps }: PlanJobsInput): JobPlan {
  const all = splitIntoMinibatches({ trajectories, batch })
  const affordable = maxSteps === null ? all.length : Math.max(1, Math.floor(maxSteps / epochs))
  const minibatches = all.slice(0, affordable)
  const perJob = stepsPerJob === null ? minibatches.length : Math.max(1, Math.floor(stepsPerJob / epochs))
  const jobs: PlannedJob[] = []
  for (let at = 0; at < minibatches.length; at += perJob) {
    const slice = minibatches.slice(at, at + perJob)
    jobs.push({ minibatches: slice, steps: slice.length * epochs })
  }
  return {
    jobs,
    totalSteps: minibatches.length * epochs,
    trained: minibatches.reduce((sum, size) => sum + size, 0),
  }
}
