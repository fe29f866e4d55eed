import { instant } from '../instant.ts'
import { INTERVAL_SEED } from './evaluation-summary.ts'
import { scoreInterval } from './score-interval.ts'
import { type TaskMean, type TaskOutcomes, meanOverTasks } from './statistics.ts'
import type { Interval } from './bootstrap.ts'

export interface DatedOutcomes extends TaskOutcomes {
  /** The cluster of the interval. */
  repo: string
  /** ISO date or time; null if unknown. */
  createdAt: string | null
}

/** The part of an evaluation whose tasks were created in one period. */
export interface DatedScore extends TaskMean {
  interval: Interval
}

export interface ContaminationSplit {
  /** Tasks whose fixes the policy may have seen in training. */
  before: DatedScore | null
  /** Tasks created on or after the cut-off, whose fixes it cannot have seen. */
  after: DatedScore | null
  unknown: DatedScore | null
}

/**
 * Computes the score on each side of a policy's knowledge cut-off; dates without a time zone are UTC. A difference is a hint and not a
 * proof, because older tasks may also just be easier.
 * @param cutoff ISO date
 */
export function splitByCutoff({
  tasks,
  cutoff,
}: {
  tasks: readonly DatedOutcomes[]
  cutoff: string
}): ContaminationSplit {
  const limit = instant(cutoff) ?? Number.NaN
  const sides: Record<keyof ContaminationSplit, DatedOutcomes[]> = { before: [], after: [], unknown: [] }
  for (const task of tasks) {
    if (task.outcomes.length > 0) sides[sideOf(task.createdAt, limit)].push(task)
  }
  return { before: scoreOf(sides.before), after: scoreOf(sides.after), unknown: scoreOf(sides.unknown) }
}

function sideOf(createdAt: string | null, limit: number): keyof ContaminationSplit {
  const created = createdAt === null ? null : instant(createdAt)
  if (created === null) return 'unknown'
  return created < limit ? 'before' : 'after'
}

function scoreOf(tasks: readonly DatedOutcomes[]): DatedScore | null {
  const clustered = tasks.map(({ taskId, repo, outcomes }) => ({ taskId, cluster: repo, outcomes }))
  const found = scoreInterval({ tasks: clustered, seed: INTERVAL_SEED })
  if (found === null) return null
  return { ...meanOverTasks(tasks.map(({ outcomes }) => outcomes)), interval: found.interval }
}
