import { LonghaulError } from '../contracts/errors.ts'
import { showMean } from '../domain/statistics/statistics.ts'
import type { PairedScore } from './report-data.ts'

/** A mean with the numbers that must accompany it. */
export interface ReportedMean {
  mean: number
  /** Standard error of the mean. */
  sem: number
  /** n: tasks. */
  tasks: number
  /** k: attempts at each task. */
  attempts: number
}

/**
 * Every mean enters a report through this function: a mean without n, k and its standard error misleads.
 * @throws LonghaulError `Report.Incomplete`
 */
export function requireMean(what: string, value: Partial<ReportedMean>): ReportedMean {
  const { mean, sem, tasks, attempts } = value
  const missing = [
    isFiniteNumber(mean) ? null : 'mean',
    isFiniteNumber(sem) && sem >= 0 ? null : 'SEM',
    isCount(tasks) ? null : 'n (tasks)',
    isCount(attempts) ? null : 'k (attempts)',
  ].filter((name) => name !== null)
  if (missing.length > 0) {
    throw new LonghaulError({
      code: 'Report.Incomplete',
      message: `Expected the score of ${what} with n, k and its standard error; missing: ${missing.join(', ')}`,
    })
  }
  return { mean: mean as number, sem: sem as number, tasks: tasks as number, attempts: attempts as number }
}

/** A mean over tasks, such as turns. @param digits after the decimal point @throws LonghaulError `Report.Incomplete` */
export function showTaskMean(what: string, value: { mean: number; sem: number; tasks: number }, digits = 3): string {
  return showMean(requireMean(what, { ...value, attempts: 1 }), digits)
}

export function showSigned(value: number, digits = 3): string {
  return `${value < 0 ? '−' : '+'}${Math.abs(value).toFixed(digits)}`
}

export function showInterval(
  interval: { low: number; high: number } | null,
  show: (value: number) => string = (value) => value.toFixed(3),
): string {
  return interval === null ? '–' : `${show(interval.low)} to ${show(interval.high)}`
}

function isFiniteNumber(value: number | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value)
}

function isCount(value: number | undefined): value is number {
  return Number.isInteger(value) && (value as number) >= 1
}

/** What a paired difference shows; the text, HTML and JSON reports share it. */
export type Gain = 'gain' | 'loss' | 'not-proven' | 'too-little'

/** The interval decides: while it contains 0, the data are consistent with no difference. */
export function judgeGain({ interval, tasks }: Pick<PairedScore, 'interval' | 'tasks'>): Gain {
  if (tasks < 2 || interval === null) return 'too-little'
  if (interval.low > 0) return 'gain'
  return interval.high < 0 ? 'loss' : 'not-proven'
}

const WORDS: Record<Gain, string> = {
  gain: 'better: the 95 % interval is above 0',
  loss: 'worse: the 95 % interval is below 0',
  'not-proven': 'not proven: the 95 % interval holds 0',
  'too-little': 'too little data to tell',
}

export function formatGain(gain: Gain): string {
  return WORDS[gain]
}
