/** Valid attempts at one task, in attempt order; 1 = resolved. */
export interface TaskOutcomes {
  taskId: string
  outcomes: readonly (0 | 1)[]
}

/** Mean of one number per task, and its standard error clustered by task (0 for one task). */
export interface TaskMean {
  mean: number
  sem: number
  tasks: number
}

/** `0.484 ± 0.044`; one task has no standard error. */
export function showMean({ mean: value, sem, tasks }: TaskMean, digits = 3): string {
  return `${value.toFixed(digits)} ${tasks < 2 ? '(one task: no SEM)' : `± ${sem.toFixed(digits)}`}`
}

export interface PassAt1 {
  mean: number
  /** The error that is printed: over runs if possible, otherwise over tasks; `semOver` says which. */
  sem: number
  /** `runs`: every task has the same number k ≥ 2 of attempts, as leaderboards print it. */
  semOver: 'runs' | 'tasks'
  /** Sd over the k runs / √k; null for k = 1 or unequal k. It ignores the randomness of the drawn tasks. */
  runSem: number | null
  /** Sd of the task means / √tasks, divisor n − 1: clustered by task, so it includes the randomness of the drawn tasks. */
  taskSem: number
  tasks: number
  /** Number of counted attempts over all tasks. */
  attempts: number
}

/**
 * Mean over tasks of the share resolved, so that a task that lost an attempt weighs as much as the others. A task that lost all
 * attempts has no share, and the caller counts it.
 */
export function passAt1(all: readonly TaskOutcomes[]): PassAt1 {
  const tasks = all.filter(({ outcomes }) => outcomes.length > 0)
  const rates = tasks.map(({ outcomes }) => mean(outcomes))
  const taskSem = standardError(rates)
  const runSem = semOverRuns(tasks)
  return {
    mean: mean(rates),
    sem: runSem ?? taskSem,
    semOver: runSem === null ? 'tasks' : 'runs',
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

/** Mean over tasks of any number, such as turns. Attempts of one task are one observation. Tasks without a value are left out. */
export function meanOverTasks(values: readonly (readonly number[])[]): TaskMean {
  const means = values.filter((ofTask) => ofTask.length > 0).map(mean)
  return { mean: mean(means), sem: standardError(means), tasks: means.length }
}

/**
 * Probability that at least one of k attempts resolves, unbiased: 1 − C(n−c, k) / C(n, k), averaged over tasks.
 * @returns null if a task has fewer than k attempts (undefined there)   @see arXiv 2107.03374
 */
export function passAtK({ tasks, k }: { tasks: readonly TaskOutcomes[]; k: number }): TaskMean | null {
  return averageOverTasks(tasks, k, (attempts, resolved) => 1 - drawAll(attempts - resolved, attempts, k))
}

/** Probability that all of k attempts resolve: C(c, k) / C(n, k), averaged over tasks; null as in `passAtK`. */
export function passHatK({ tasks, k }: { tasks: readonly TaskOutcomes[]; k: number }): TaskMean | null {
  return averageOverTasks(tasks, k, (attempts, resolved) => drawAll(resolved, attempts, k))
}

function averageOverTasks(
  tasks: readonly TaskOutcomes[],
  k: number,
  rate: (attempts: number, resolved: number) => number,
): TaskMean | null {
  if (tasks.length === 0 || tasks.some(({ outcomes }) => outcomes.length < k)) return null
  return meanOverTasks(tasks.map(({ outcomes }) => [rate(outcomes.length, countResolved(outcomes))]))
}

/** C(of, k) / C(total, k) as a product, because the binomials themselves overflow. */
function drawAll(of: number, total: number, k: number): number {
  let chance = 1
  for (let drawn = 0; drawn < k; drawn++) chance *= Math.max(0, of - drawn) / (total - drawn)
  return chance
}

export function countResolved(outcomes: readonly (0 | 1)[]): number {
  return outcomes.filter((outcome) => outcome === 1).length
}

export interface FlakyTask {
  taskId: string
  resolved: number
  attempts: number
}

/** Tasks that the same policy sometimes resolved and sometimes did not, those nearest to one half first, where randomness is largest. */
export function flakyTasks(tasks: readonly TaskOutcomes[]): FlakyTask[] {
  const centre = ({ resolved, attempts }: FlakyTask): number => Math.abs(resolved / attempts - 0.5)
  return tasks
    .map(({ taskId, outcomes }) => ({ taskId, resolved: countResolved(outcomes), attempts: outcomes.length }))
    .filter(({ resolved, attempts }) => resolved > 0 && resolved < attempts)
    .sort((a, b) => centre(a) - centre(b) || (a.taskId < b.taskId ? -1 : 1))
}

export interface PairedDifference extends TaskMean {
  /** Number of tasks whose share went up, and down. */
  better: number
  worse: number
  /** Tasks of only one side, which are left out because a difference needs both. */
  unpaired: number
}

/** After − before, same tasks only. To pool several seeds, give each task the attempts of all seeds. */
export function pairedDifference({
  before,
  after,
}: {
  before: readonly TaskOutcomes[]
  after: readonly TaskOutcomes[]
}): PairedDifference {
  const scored = before.filter(({ outcomes }) => outcomes.length > 0)
  const rateBefore = new Map(scored.map(({ taskId, outcomes }) => [taskId, mean(outcomes)]))
  const differences = after.flatMap(({ taskId, outcomes }) => {
    const rate = rateBefore.get(taskId)
    return rate === undefined || outcomes.length === 0 ? [] : [mean(outcomes) - rate]
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

/** 0 for an empty list. Callers report n beside every mean. */
export function mean(values: readonly number[]): number {
  if (values.length === 0) return 0
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

/** Sample standard deviation, divisor n − 1; 0 for fewer than two values. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0
  const center = mean(values)
  const squares = values.reduce((sum, value) => sum + (value - center) ** 2, 0)
  return Math.sqrt(squares / (values.length - 1))
}

/** Standard error of the mean of independent values; 0 for fewer than two. */
export function standardError(values: readonly number[]): number {
  return values.length < 2 ? 0 : standardDeviation(values) / Math.sqrt(values.length)
}

/** Whether values are equal apart from rounding: 3/3 − 2/3 and 2/3 − 1/3 differ in their last digit, which is no spread. */
export function isWithoutSpread(values: readonly number[]): boolean {
  const [first = 0] = values
  return values.every((value) => Math.abs(value - first) <= 1e-12 * Math.max(1, Math.abs(first)))
}
