import { instant } from '../instant.ts'
import { INTERVAL_SEED } from './evaluation-summary.ts'
import { scoreInterval } from './score-interval.ts'
import { type TaskMean, type TaskOutcomes, meanOverTasks } from './statistics.ts'
import type { Interval } from './bootstrap.ts'

export interface DatedOutcomes extends TaskOutcomes {
  /** The cluster of the interval. */
  repo: string
  /** ISO date or time; null = unknown. */
  createdAt: string | null
}

/** A part of an evaluation by when its tasks came into being. */
export interface DatedScore extends TaskMean {
  interval: Interval
}

export interface ContaminationSplit {
  /** The policy may have read these tasks' fixes in training. */
  before: DatedScore | null
  /** Created on or after the cut-off: cannot have been read. */
  after: DatedScore | null
  unknown: DatedScore | null
}

/**
 * The same score on both sides of a policy's knowledge cut-off; dates that name no zone are UTC. A flag, not a proof: older tasks
 * may also just be easier.
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
