import type { EvaluatedTask } from '../../contracts/evaluations.types.ts'
import { BOOTSTRAP_DRAWS, type Interval, type PairedOutcomes } from './bootstrap.ts'
import { compareText } from '../hash-order.ts'
import { type McNemar, testMcNemar } from './proportions.ts'
import {
  type PassAt1,
  countResolved,
  isWithoutSpread,
  mean,
  passAt1,
  standardDeviation,
  standardError,
} from './statistics.ts'
import { differenceInterval, meanInterval } from './score-interval.ts'
import { normalQuantile } from './special-functions.ts'

/** One task that both sides attempted. */
export interface ComparedTask {
  taskId: string
  before: { resolved: number; attempts: number }
  after: { resolved: number; attempts: number }
  /** Share resolved after − before. */
  difference: number
}

/** Mean of after − before over tasks; `sem` is clustered by task. */
export interface Difference {
  mean: number
  sem: number
  interval: Interval | null
  tasks: number
}

export interface Comparison {
  level: number
  seed: number
  draws: number
  tasks: number
  before: PassAt1
  after: PassAt1
  difference: Difference
  /** The same by paid outcomes; null if one side was evaluated by a version without audits. */
  audited: { before: PassAt1; after: PassAt1; difference: Difference } | null
  /** Exact test on the discordant tasks; null unless every task has one attempt on each side. */
  mcnemar: McNemar | null
  /** Tasks whose share went up, went down, or stayed. */
  better: number
  worse: number
  same: number
  /** The changed tasks, largest change first. */
  flips: ComparedTask[]
  /** After − before; null if a side has no such records. */
  effort: {
    turns: Difference | null
    sampledTokens: Difference | null
    promptTokens: Difference | null
    wallSeconds: Difference | null
    /** Cost, if both sides have prices in one currency. */
    cost: Difference | null
  }
  power: PowerHint | null
  /** Tasks of only one side, and tasks of both that one side could not score. They are left out of everything above. */
  onlyBefore: string[]
  onlyAfter: string[]
  unscored: string[]
}

export interface CompareInput {
  before: readonly EvaluatedTask[]
  after: readonly EvaluatedTask[]
  /** @default 0.95 */
  level?: number
  /** @default 1, fixed so that the same records give the same interval */
  seed?: number
  draws?: number
  /** Costs are compared only if true. @default false */
  isSameCurrency?: boolean
  /** The value that the difference should be distinguished from, for the power hint. @default 0 */
  line?: number
}

/** Compares two evaluations task by task. A difference needs both sides, so all other tasks are left out and listed. */
export function compareEvaluations(input: CompareInput): Comparison {
  const { before, after, level = 0.95, seed = 1, draws = BOOTSTRAP_DRAWS, line = 0 } = input
  const { shared, ...left } = pairTasks(before, after)
  const pairs = shared.map(toOutcomes)
  const tasks = pairs.map(toComparedTask)
  const differences = tasks.map(({ difference }) => difference)
  const options = { seed, draws, level }
  const single = pairs.every(({ before, after }) => before.length === 1 && after.length === 1)
  const better = differences.filter((difference) => difference > 0).length
  const worse = differences.filter((difference) => difference < 0).length
  return {
    level,
    seed,
    draws,
    tasks: tasks.length,
    before: passAt1(pairs.map(({ taskId, before }) => ({ taskId, outcomes: before }))),
    after: passAt1(pairs.map(({ taskId, after }) => ({ taskId, outcomes: after }))),
    difference: differenceOf(pairs, options),
    audited: shared.every((pair) => pair.every(isAudited)) ? compareAudited(shared, options) : null,
    mcnemar: single && tasks.length > 0 ? testMcNemar({ onlyBefore: worse, onlyAfter: better }) : null,
    better,
    worse,
    same: tasks.length - better - worse,
    flips: tasks
      .filter(({ difference }) => difference !== 0)
      .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference) || compareText(a.taskId, b.taskId)),
    effort: {
      turns: effortDifference(shared, ({ turns }) => turns, level),
      sampledTokens: effortDifference(shared, ({ sampledTokens }) => sampledTokens, level),
      promptTokens: effortDifference(shared, ({ promptTokens = [] }) => promptTokens, level),
      cost: input.isSameCurrency === true ? effortDifference(shared, ({ cost = [] }) => cost, level) : null,
      wallSeconds: effortDifference(shared, ({ wallSeconds }) => wallSeconds, level),
    },
    power: hintPower({ tasks: pairs, line, level }),
    ...left,
  }
}

type DifferenceOptions = Required<Pick<CompareInput, 'seed' | 'draws' | 'level'>>

function differenceOf(pairs: readonly PairedOutcomes[], options: DifferenceOptions): Difference {
  const differences = pairs.map(({ before, after }) => mean(after) - mean(before))
  return {
    mean: mean(differences),
    sem: standardError(differences),
    interval: differenceInterval({ tasks: pairs, ...options }),
    tasks: pairs.length,
  }
}

function isAudited({ audited }: EvaluatedTask): boolean {
  return audited !== undefined
}

function compareAudited(shared: readonly Pair[], options: DifferenceOptions): Comparison['audited'] {
  const paid = (task: EvaluatedTask): EvaluatedTask => ({ ...task, outcomes: task.audited ?? [] })
  const pairs = shared.map(([before, after]) => toOutcomes([paid(before), paid(after)]))
  return {
    before: passAt1(pairs.map(({ taskId, before }) => ({ taskId, outcomes: before }))),
    after: passAt1(pairs.map(({ taskId, after }) => ({ taskId, outcomes: after }))),
    difference: differenceOf(pairs, options),
  }
}

function toComparedTask({ taskId, before, after }: PairedOutcomes): ComparedTask {
  return {
    taskId,
    before: { resolved: countResolved(before), attempts: before.length },
    after: { resolved: countResolved(after), attempts: after.length },
    difference: mean(after) - mean(before),
  }
}

function effortDifference(
  shared: readonly Pair[],
  valuesOf: (task: EvaluatedTask) => readonly (number | null)[],
  level: number,
): Difference | null {
  const differences = shared.flatMap(([before, after]) => {
    const [from, to] = [known(valuesOf(before)), known(valuesOf(after))]
    return from.length === 0 || to.length === 0 ? [] : [mean(to) - mean(from)]
  })
  if (differences.length === 0) return null
  return {
    mean: mean(differences),
    sem: standardError(differences),
    interval: differences.length < 2 ? null : meanInterval({ values: differences, level, range: null }),
    tasks: differences.length,
  }
}

function known(values: readonly (number | null)[]): number[] {
  return values.filter((value) => value !== null)
}

export interface PowerHintInput {
  /** After and before for each task. */
  tasks: readonly PairedOutcomes[]
  /** The value to distinguish the difference from: 0, or the permitted regression as a negative number. */
  line: number
  level: number
  /** Probability of finding a real difference of this size. @default 0.8 */
  power?: number
}

/** The effect of more tasks or attempts. An estimate for planning, never a verdict. */
interface PowerHint {
  power: number
  /** Smallest true distance from the line that these tasks and attempts would detect; null if no spread says how large that is. */
  smallest: number | null
  /**
   * Attempts per task and side that would settle a true difference as large as the observed one; null if no number would, because the
   * tasks themselves differ too much for so few of them.
   */
  attempts: number | null
  /** True with one attempt: the randomness of attempts and tasks cannot be separated then, so `attempts` assumes that all spread
   *  comes from attempts. */
  attemptsAtLeast: boolean
  /** Number of tasks that would settle it with the present attempts; null if there is no difference at all. */
  tasks: number | null
}

/**
 * The standard error of the mean difference is √((between + within / k) / n), so more attempts only shrink the second part. Each part
 * is estimated from the existing attempts.
 */
export function hintPower({ tasks, line, level, power = 0.8 }: PowerHintInput): PowerHint | null {
  if (tasks.length < 2) return null
  const differences = tasks.map(({ before, after }) => mean(after) - mean(before))
  const hasSpread = !isWithoutSpread(differences)
  const variance = standardDeviation(differences) ** 2
  const reach = normalQuantile(0.5 + level / 2) + normalQuantile(power)
  const smallest = hasSpread ? reach * Math.sqrt(variance / tasks.length) : null
  const distance = Math.abs(mean(differences) - line)
  const luck = varianceByLuck(tasks)
  const attempts = mean(tasks.map(({ before, after }) => (before.length + after.length) / 2))
  const hint = { power, smallest, attemptsAtLeast: luck === null }
  if (distance === 0 || !hasSpread) return { ...hint, attempts: null, tasks: null }
  const wanted = (distance / reach) ** 2
  const within = (luck ?? variance) * attempts
  const between = Math.max(0, variance - (luck ?? variance))
  const left = wanted * tasks.length - between
  return {
    ...hint,
    attempts: left <= 0 ? null : Math.max(1, Math.ceil(within / left)),
    tasks: Math.max(2, Math.ceil(variance / wanted)),
  }
}

/** Mean variance of a task's difference that its attempts alone explain; null if some side has one attempt. */
function varianceByLuck(tasks: readonly PairedOutcomes[]): number | null {
  if (tasks.some(({ before, after }) => before.length < 2 || after.length < 2)) return null
  return mean(tasks.map(({ before, after }) => varianceOfRate(before) + varianceOfRate(after)))
}

/** p(1 − p) / (k − 1): unbiased for the variance of a rate of k attempts. */
function varianceOfRate(outcomes: readonly (0 | 1)[]): number {
  const rate = countResolved(outcomes) / outcomes.length
  return (rate * (1 - rate)) / (outcomes.length - 1)
}

type Pair = [EvaluatedTask, EvaluatedTask]

/** Pairs tasks by id. A difference needs both sides, so tasks of one side, and tasks that a side could not score, are listed
 *  separately. */
export function pairTasks(
  before: readonly EvaluatedTask[],
  after: readonly EvaluatedTask[],
): { shared: Pair[]; onlyBefore: string[]; onlyAfter: string[]; unscored: string[] } {
  const afterOf = new Map(after.map((task) => [task.taskId, task]))
  const beforeIds = new Set(before.map(({ taskId }) => taskId))
  const both = before.flatMap((task): Pair[] => {
    const other = afterOf.get(task.taskId)
    return other === undefined ? [] : [[task, other]]
  })
  const isScored = ([left, right]: Pair): boolean => left.outcomes.length > 0 && right.outcomes.length > 0
  return {
    shared: both.filter(isScored).sort(([a], [b]) => compareText(a.taskId, b.taskId)),
    onlyBefore: before.map(({ taskId }) => taskId).filter((taskId) => !afterOf.has(taskId)),
    onlyAfter: after.map(({ taskId }) => taskId).filter((taskId) => !beforeIds.has(taskId)),
    unscored: both.filter((pair) => !isScored(pair)).map(([{ taskId }]) => taskId),
  }
}

export function toOutcomes([before, after]: Pair): PairedOutcomes {
  return { taskId: before.taskId, cluster: before.repo, before: before.outcomes, after: after.outcomes }
}
