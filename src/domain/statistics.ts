import { mean, standardError } from './moments.ts'

/** Valid attempts at one task, in attempt order; 1 = resolved. Tasks without a valid attempt are left out by the caller and counted. */
export interface TaskOutcomes {
  taskId: string
  outcomes: readonly (0 | 1)[]
}

export interface PassAt1 {
  mean: number
  /**
   * Standard error of the mean: over runs where every task has the same number k ≥ 2 of attempts (how leaderboards print
   * it), else over tasks.
   */
  sem: number
  /** Sd over the k runs / √k; null for k = 1 or unequal k. Leaves out which tasks were drawn. */
  runSem: number | null
  /** Sd of the task means / √tasks, divisor n − 1: clustered by task, so it covers the drawing of tasks too. */
  taskSem: number
  tasks: number
  /** Attempts counted, over all tasks. */
  attempts: number
}

/** Mean over tasks of the share resolved, so that a task that lost an attempt weighs as much as the others. */
export function passAt1(tasks: readonly TaskOutcomes[]): PassAt1 {
  const rates = tasks.map(({ outcomes }) => mean(outcomes))
  const taskSem = standardError(rates)
  const runSem = semOverRuns(tasks)
  return {
    mean: mean(rates),
    sem: runSem ?? taskSem,
    runSem,
    taskSem,
    tasks: tasks.length,
    attempts: tasks.reduce((sum, { outcomes }) => sum + outcomes.length, 0),
  }
}

function semOverRuns(tasks: readonly TaskOutcomes[]): number | null {
  const runs = tasks[0]?.outcomes.length ?? 0
  if (runs < 2 || tasks.some(({ outcomes }) => outcomes.length !== runs)) return null
  return standardError(Array.from({ length: runs }, (_, run) => mean(tasks.map(({ outcomes }) => outcomes[run] ?? 0))))
}

/**
 * Chance that at least one of k attempts resolves, unbiased: 1 − C(n−c, k) / C(n, k), averaged over tasks.
 * @returns null when a task has fewer than k attempts (undefined there)   @see arXiv 2107.03374
 */
export function passAtK({ tasks, k }: { tasks: readonly TaskOutcomes[]; k: number }): number | null {
  return averageOverTasks(tasks, k, (attempts, resolved) => 1 - drawAll(attempts - resolved, attempts, k))
}

/** Chance that all of k attempts resolve: C(c, k) / C(n, k), averaged over tasks; null as in `passAtK`. */
export function passHatK({ tasks, k }: { tasks: readonly TaskOutcomes[]; k: number }): number | null {
  return averageOverTasks(tasks, k, (attempts, resolved) => drawAll(resolved, attempts, k))
}

function averageOverTasks(
  tasks: readonly TaskOutcomes[],
  k: number,
  rate: (attempts: number, resolved: number) => number,
): number | null {
  if (tasks.length === 0 || tasks.some(({ outcomes }) => outcomes.length < k)) return null
  return mean(tasks.map(({ outcomes }) => rate(outcomes.length, outcomes.filter((outcome) => outcome === 1).length)))
}

/** C(of, k) / C(total, k) as a product, because the binomials themselves overflow. */
function drawAll(of: number, total: number, k: number): number {
  let chance = 1
  for (let drawn = 0; drawn < k; drawn++) chance *= Math.max(0, of - drawn) / (total - drawn)
  return chance
}

export interface PairedDifference {
  /** Mean of after − before over the shared tasks. */
  mean: number
  /** Clustered by task: attempts (and seeds) of one task are one observation. */
  sem: number
  tasks: number
  /** Tasks where the share went up, and where it went down. */
  better: number
  worse: number
  /** Tasks that only one side has: left out, because a difference needs both. */
  unpaired: number
}

/** Same tasks only. To pool several seeds, give each task the attempts of all seeds. */
export function pairedDifference({
  before,
  after,
}: {
  before: readonly TaskOutcomes[]
  after: readonly TaskOutcomes[]
}): PairedDifference {
  const rateBefore = new Map(before.map(({ taskId, outcomes }) => [taskId, mean(outcomes)]))
  const differences = after.flatMap(({ taskId, outcomes }) => {
    const rate = rateBefore.get(taskId)
    return rate === undefined ? [] : [mean(outcomes) - rate]
  })
  return {
    mean: mean(differences),
    sem: standardError(differences),
    tasks: differences.length,
    better: differences.filter((difference) => difference > 0).length,
    worse: differences.filter((difference) => difference < 0).length,
    unpaired: before.length + after.length - 2 * differences.length,
  }
}
