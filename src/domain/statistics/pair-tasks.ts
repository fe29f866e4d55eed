import type { EvaluatedTask } from '../../contracts/evaluations.types.ts'
import type { PairedOutcomes } from './bootstrap.ts'
import { compareText } from '../hash-order.ts'

export type Pair = [EvaluatedTask, EvaluatedTask]

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
