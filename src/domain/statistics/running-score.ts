import type { Interval } from './bootstrap.ts'
import { exactInterval } from './proportions.ts'
import { studentQuantile } from './special-functions.ts'

/** Sums over graded tasks of each task's share of resolved attempts. The score of a rollout in progress needs nothing else. */
export interface ScoreSums {
  tasks: number
  attempts: number
  sum: number
  squares: number
}

export const NO_SCORE: ScoreSums = { tasks: 0, attempts: 0, sum: 0, squares: 0 }

/** @param sign −1 removes a task that is played again */
export function addTask(
  sums: ScoreSums,
  { resolved, valid }: { resolved: number; valid: number },
  sign: 1 | -1 = 1,
): ScoreSums {
  if (valid === 0) return sums
  const share = resolved / valid
  return {
    tasks: sums.tasks + sign,
    attempts: sums.attempts + sign * valid,
    sum: sums.sum + sign * share,
    squares: sums.squares + sign * share * share,
  }
}

/**
 * Returns pass@1 so far with its interval: exact for one attempt per task, Student's t over tasks for several. Reports add a bootstrap,
 * so their interval may be wider.
 * @returns null before the first graded task
 */
export function scoreSoFar(sums: ScoreSums, level = 0.95): (Interval & { mean: number; tasks: number }) | null {
  const { tasks, attempts, sum, squares } = sums
  if (tasks === 0) return null
  const mean = Math.min(1, Math.max(0, sum / tasks))
  if (attempts === tasks) {
    return { mean, tasks, ...exactInterval({ successes: Math.round(sum), trials: tasks, level }) }
  }
  const tail = (1 - level) / 2
  // Rounding may leave a tiny spread where there is none, as for one task.
  const spread = Math.max(0, squares - (sum * sum) / tasks)
  if (spread < 1e-9) {
    const missed = 1 - tail ** (1 / tasks)
    return { mean, tasks, low: mean * (1 - missed), high: mean + missed * (1 - mean) }
  }
  const half = studentQuantile({ probability: 1 - tail, freedom: tasks - 1 }) * Math.sqrt(spread / (tasks - 1) / tasks)
  return { mean, tasks, low: Math.max(0, mean - half), high: Math.min(1, mean + half) }
}

/**
 * Decides when a rollout reports its progress to its root. A report adds up to four events to the root's history, which should stay
 * below 2,000 because users open it. In the first minutes there is a report every 15 s; later the interval is a thirtieth of the run's
 * age. That gives 230 reports in four days and 300 in five weeks.
 */
const EVERY_MS = 15_000
const REPORTS_IN_AN_AGE = 30

/** @param toldAt when the last report was sent, 0 for none; all times in ms since 1970 */
export function isReportDue({ now, toldAt, since }: { now: number; toldAt: number; since: number }): boolean {
  return now - toldAt >= Math.max(EVERY_MS, (now - since) / REPORTS_IN_AN_AGE)
}
