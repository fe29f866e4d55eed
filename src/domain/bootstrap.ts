import { compareText } from './hash-order.ts'
import { seededRandom } from './random.ts'
import type { TaskOutcomes } from './statistics.ts'

/** A task and the cluster it belongs to, usually its repository: tasks of one repository are alike. */
export interface ClusteredOutcomes extends TaskOutcomes {
  cluster: string
}

export interface BootstrapInput {
  tasks: readonly ClusteredOutcomes[]
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

/**
 * Percentile interval of the mean by resampling clusters, then tasks in them, then attempts at them. Sorted first, so that the
 * order of the input changes nothing. Where all tasks share one cluster, tasks are the outer level.
 * @returns null for no tasks
 */
export function bootstrapInterval({ tasks, seed, draws = 10_000, level = 0.95 }: BootstrapInput): Interval | null {
  if (tasks.length === 0) return null
  const random = seededRandom(seed)
  const clusters = groupByCluster(tasks)
  const means = Array.from({ length: draws }, () => resampledMean(clusters, random)).sort((a, b) => a - b)
  const tail = (1 - level) / 2
  return { low: quantile(means, tail), high: quantile(means, 1 - tail) }
}

function groupByCluster(tasks: readonly ClusteredOutcomes[]): (readonly (0 | 1)[])[][] {
  const clusters = new Map<string, (readonly (0 | 1)[])[]>()
  const sorted = [...tasks].sort((a, b) => compareText(a.cluster, b.cluster) || compareText(a.taskId, b.taskId))
  for (const { cluster, outcomes } of sorted) {
    const members = clusters.get(cluster)
    if (members === undefined) clusters.set(cluster, [outcomes])
    else members.push(outcomes)
  }
  return [...clusters.values()]
}

function resampledMean(clusters: (readonly (0 | 1)[])[][], random: () => number): number {
  let sum = 0
  let count = 0
  for (let c = 0; c < clusters.length; c++) {
    const cluster = pick(clusters, random)
    for (let t = 0; t < cluster.length; t++) {
      const outcomes = pick(cluster, random)
      let resolved = 0
      for (let a = 0; a < outcomes.length; a++) resolved += pick(outcomes, random)
      sum += outcomes.length === 0 ? 0 : resolved / outcomes.length
      count += 1
    }
  }
  return sum / count
}

function pick<T>(items: readonly T[], random: () => number): T {
  return items[Math.floor(random() * items.length)] as T
}

/** Linear between order statistics. */
function quantile(sorted: readonly number[], share: number): number {
  const at = share * (sorted.length - 1)
  const below = sorted[Math.floor(at)] ?? Number.NaN
  const above = sorted[Math.ceil(at)] ?? Number.NaN
  return below + (above - below) * (at - Math.floor(at))
}
