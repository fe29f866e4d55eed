import type { VerdictKind } from '../../contracts/episodes.types.ts'
import type { GradingScore } from '../../contracts/grading.types.ts'
import { INTERVAL_SEED } from './evaluation-summary.ts'
import { scoreInterval } from './score-interval.ts'
import { passAt1 } from './statistics.ts'

export interface JudgedPatch {
  taskId: string
  /** The cluster, because tasks of one repository are similar. */
  repo: string
  kind: VerdictKind
}

/** A task without a prediction. */
export interface MissingTask {
  taskId: string
  repo: string
}

export interface GradingScores {
  /** Null if nothing was graded. */
  graded: GradingScore | null
  official: GradingScore | null
}

/** Computes both scores: over patches with a verdict, and over everything that an official harness would count. */
export function scoreGrading(patches: readonly JudgedPatch[], missing: readonly MissingTask[]): GradingScores {
  const graded = patches.filter(({ kind }) => kind !== 'could-not-grade')
  const counted = [...patches, ...missing.map((task) => ({ ...task, kind: 'unresolved' as const }))]
  return { graded: scoreOf(graded), official: scoreOf(counted) }
}

function scoreOf(patches: readonly JudgedPatch[]): GradingScore | null {
  const tasks = [...Map.groupBy(patches, ({ taskId }) => taskId)].map(([taskId, ofTask]) => ({
    taskId,
    cluster: ofTask[0]?.repo ?? '',
    outcomes: ofTask.map(({ kind }): 0 | 1 => (kind === 'resolved' ? 1 : 0)),
  }))
  if (tasks.length === 0) return null
  const { mean, sem, attempts } = passAt1(tasks)
  return {
    mean,
    sem,
    interval: scoreInterval({ tasks, seed: INTERVAL_SEED })?.interval ?? null,
    tasks: tasks.length,
    attempts,
  }
}
