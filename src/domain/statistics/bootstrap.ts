import { compareText } from '../hash-order.ts'
import { type TaskOutcomes, mean } from './statistics.ts'

/** A task and the cluster it belongs to, usually its repository: tasks of one repository are alike. */
export interface ClusteredOutcomes extends TaskOutcomes {
  cluster: string
}

/** The valid attempts of two policies at one task. */
export interface PairedOutcomes {
  taskId: string
  cluster: string
  before: readonly (0 | 1)[]
  after: readonly (0 | 1)[]
}

export interface BootstrapInput<T> {
  tasks: readonly T[]
  seed: number
  /** @default 10000 */
  draws?: number
  /** @default 0.95 */
  level?: number
}

export interface Interval {
  low: number
  high: number
}

export const BOOTSTRAP_DRAWS = 10_000

/**
 * Returns the percentile interval of the mean by resampling clusters, then tasks in them, then attempts at them. The input is sorted
 * first, so that its order does not matter. If all tasks share one cluster, tasks are the outer level.
 * @returns null for no tasks
 */
export function bootstrapInterval(input: BootstrapInput<ClusteredOutcomes>): Interval | null {
  return percentileInterval(input, ({ outcomes }, random) => resampledRate(outcomes, random))
}

/**
 * The same for the mean of after − before, resampling clusters and then tasks. A task's difference is one observation. Its spread over
 * tasks already includes the randomness of attempts, and drawing attempts again would count that twice.
 */
export function pairedBootstrapInterval(input: BootstrapInput<PairedOutcomes>): Interval | null {
  const tasks = input.tasks.map(({ taskId, cluster, before, after }) => {
    return { taskId, cluster, difference: mean(after) - mean(before) }
  })
  return percentileInterval({ ...input, tasks }, ({ difference }) => difference)
}

type Random = () => number

function percentileInterval<T extends { taskId: string; cluster: string }>(
  { tasks, seed, draws = BOOTSTRAP_DRAWS, level = 0.95 }: BootstrapInput<T>,
  drawTask: (task: T, random: Random) => number,
): Interval | null {
  if (tasks.length === 0) return null
  const random = seededRandom(seed)
  const clusters = groupByCluster(tasks)
  const means = Float64Array.from({ length: draws }, () => resampledMean(clusters, random, drawTask)).sort()
  const tail = (1 - level) / 2
  return { low: quantile(means, tail), high: quantile(means, 1 - tail) }
}

function groupByCluster<T extends { taskId: string; cluster: string }>(tasks: readonly T[]): T[][] {
  const sorted = [...tasks].sort((a, b) => compareText(a.cluster, b.cluster) || compareText(a.taskId, b.taskId))
  return [...Map.groupBy(sorted, ({ cluster }) => cluster).values()]
}

function resampledMean<T>(
  clusters: readonly (readonly T[])[],
  random: Random,
  drawTask: (task: T, random: Random) => number,
): number {
  let sum = 0
  let count = 0
  for (let c = 0; c < clusters.length; c++) {
    const cluster = pick(clusters, random)
    for (let t = 0; t < cluster.length; t++) sum += drawTask(pick(cluster, random), random)
    count += cluster.length
  }
  return sum / count
}

function resampledRate(outcomes: readonly (0 | 1)[], random: Random): number {
  let resolved = 0
  for (let a = 0; a < outcomes.length; a++) resolved += pick(outcomes, random)
  return outcomes.length === 0 ? 0 : resolved / outcomes.length
}

function pick<T>(items: readonly T[], random: Random): T {
  return items[Math.floor(random() * items.length)] as T
}

/** Interpolates linearly between order statistics, in NumPy's order of operations, so that not even the last digit differs. */
function quantile(sorted: Float64Array, share: number): number {
  const at = share * (sorted.length - 1)
  const part = at - Math.floor(at)
  const below = sorted[Math.floor(at)] ?? Number.NaN
  const above = sorted[Math.ceil(at)] ?? Number.NaN
  return part < 0.5 ? below + (above - below) * part : above - (above - below) * (1 - part)
}

/** Returns uniform numbers in [0, 1), the same for the same seed on every machine (mulberry32). For resampling, never for secrets. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
