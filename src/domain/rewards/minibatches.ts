/**
 * Returns the number of trajectories in each mini-batch: K = max(1, round(n / batch)) with halves rounded up, in nearly equal parts,
 * larger ones first. Nothing is dropped or padded. Empty for no trajectories.
 */
export function splitIntoMinibatches({ trajectories, batch }: { trajectories: number; batch: number }): number[] {
  if (trajectories === 0) return []
  // There cannot be more parts than trajectories, because a mini-batch without a row has no loss.
  const parts = Math.min(trajectories, Math.max(1, Math.floor(trajectories / batch + 0.5)))
  return splitEvenly({ count: trajectories, parts })
}

/** Returns parts that differ by at most one, larger ones first. */
export function splitEvenly({ count, parts }: { count: number; parts: number }): number[] {
  const smaller = Math.floor(count / parts)
  const larger = count % parts
  return Array.from({ length: parts }, (_, index) => smaller + (index < larger ? 1 : 0))
}

/**
 * Returns the number of trajectories in each mini-batch, in the given order: as many as have up to `budget` loss tokens together, and
 * at least one (C3PO, arXiv 2506.14731). The trainer divides by the budget, so a mini-batch that fills less of it makes a smaller step.
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
  /** Maximum optimizer steps; null for as many as the data gives. */
  maxSteps: number | null
}

/** The same for whole pairs: both trajectories stay in one mini-batch. */
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
  /** Steps of all jobs, over which the learning-rate schedule runs. */
  totalSteps: number
  /** Number of trajectories of the shuffled order that train; `maxSteps` left out the rest. */
  trained: number
}

/**
 * Splits an epoch into jobs. Every job repeats its own file `epochs` times, so that an episode stays in one batch. A job is therefore a
 * slice of mini-batches and never of epochs.
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
