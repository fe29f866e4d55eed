/** Compares two evaluations; changed tasks come first. */
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import type { EvaluatedTask, EvaluationRecord } from '../contracts/evaluations.types.ts'
import { readEvaluations } from '../activities/evaluation/report-data.ts'
import { checkComparability } from '../domain/statistics/comparability.ts'
import { compareEvaluations } from '../domain/statistics/comparison.ts'
import { changeTable } from '../report/comparison-tables.ts'
import type { ComparedAttempts, ComparedTask, ComparePage, EpisodeRow } from './pages.types.ts'

export interface EvaluationSide {
  run: string
  name: string
  /** Episodes of that run. */
  rows: readonly EpisodeRow[]
}

/** The default of `longhaul compare`. */
const LEVEL = 0.95

/** Null if a side is not a stored evaluation. */
export async function readComparePage(
  store: ArtifactStore,
  sides: { before: EvaluationSide; after: EvaluationSide },
): Promise<ComparePage | null> {
  const [before, after] = await Promise.all([readSide(store, sides.before), readSide(store, sides.after)])
  if (before === null || after === null) return null
  const isSameCurrency = before.cost !== undefined && before.cost.prices.currency === after.cost?.prices.currency
  const comparison = compareEvaluations({
    before: before.tasks,
    after: after.tasks,
    level: LEVEL,
    isSameCurrency,
    line: 0,
  })
  const { warnings, otherRows } = checkComparability(before, after)
  return {
    kind: 'compare',
    before: describeSide(before),
    after: describeSide(after),
    tables: [changeTable({ comparison })].filter(({ rows }) => rows.length > 0),
    warnings: [
      ...warnings,
      ...(otherRows.length === 0 ? [] : [`${otherRows.length} tasks have the same id and another row`]),
    ],
    tasks: pairTasks({ record: before, ...sides.before }, { record: after, ...sides.after }),
  }
}

async function readSide(store: ArtifactStore, { run, name }: EvaluationSide): Promise<EvaluationRecord | null> {
  return (await readEvaluations(store, run)).find((evaluation) => evaluation.name === name) ?? null
}

function describeSide({ run, name, score }: EvaluationRecord): ComparePage['before'] {
  return { run, name, policy: score.policy }
}

interface Side extends EvaluationSide {
  record: EvaluationRecord
}

function pairTasks(before: Side, after: Side): ComparedTask[] {
  const [attemptsBefore, attemptsAfter] = [attemptsOf(before), attemptsOf(after)]
  const taskIds = [...new Set([...attemptsBefore.keys(), ...attemptsAfter.keys()])].sort()
  const tasks = taskIds.map((taskId): ComparedTask => {
    const [left, right] = [attemptsBefore.get(taskId) ?? NONE, attemptsAfter.get(taskId) ?? NONE]
    const difference = left.attempts === 0 || right.attempts === 0 ? null : shareOf(right) - shareOf(left)
    return { taskId, before: left, after: right, difference }
  })
  // Losses before gains, since readers look for losses.
  return tasks.sort((a, b) => rank(a) - rank(b) || (a.difference ?? 0) - (b.difference ?? 0))
}

const NONE: ComparedAttempts = { resolved: 0, attempts: 0, episodes: [] }

function rank({ difference }: ComparedTask): number {
  return difference === null ? 2 : difference === 0 ? 1 : 0
}

function shareOf({ resolved, attempts }: ComparedAttempts): number {
  return resolved / attempts
}

function attemptsOf({ record, rows }: Side): Map<string, ComparedAttempts> {
  const played = Map.groupBy(
    rows.filter(({ stage }) => stage === record.stage),
    ({ taskId }) => taskId,
  )
  return new Map(record.tasks.map((task) => [task.taskId, attemptsAt(task, played.get(task.taskId) ?? [])]))
}

function attemptsAt({ outcomes }: EvaluatedTask, rows: readonly EpisodeRow[]): ComparedAttempts {
  return {
    resolved: outcomes.filter((outcome) => outcome === 1).length,
    attempts: outcomes.length,
    episodes: rows.map(({ episode, verdict }) => ({ episode, verdict })),
  }
}
