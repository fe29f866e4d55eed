import type { PairedOutcomes } from './bootstrap.ts'
import { mean, standardDeviation } from './moments.ts'
import { normalQuantile } from './special-functions.ts'
import { countResolved } from './statistics.ts'

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
export interface PowerHint {
  power: number
  /** Smallest true distance from the line that these tasks and attempts would detect. */
  smallest: number
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
  const variance = standardDeviation(differences) ** 2
  const reach = normalQuantile(0.5 + level / 2) + normalQuantile(power)
  const smallest = reach * Math.sqrt(variance / tasks.length)
  const distance = Math.abs(mean(differences) - line)
  const luck = varianceByLuck(tasks)
  const attempts = mean(tasks.map(({ before, after }) => (before.length + after.length) / 2))
  const hint = { power, smallest, attemptsAtLeast: luck === null }
  if (distance === 0 || variance === 0) return { ...hint, attempts: null, tasks: null }
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
