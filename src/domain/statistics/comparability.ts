import type { JudgedScore } from '../../contracts/activities.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'

/** Returns the share of requested attempts that produced a verdict. Below the caller's limit, scores are not meaningful. */
export function gradedShare({ tasks, attempts }: Pick<EvaluationRecord, 'tasks' | 'attempts'>): number {
  const graded = tasks.reduce((sum, { outcomes }) => sum + outcomes.length, 0)
  return graded / Math.max(1, tasks.length * attempts)
}

/** The part of an evaluation that a workflow passes on: its score, and the few facts that rules about it need. */
export function judgedScore(record: EvaluationRecord): JudgedScore {
  return { ...record.score, evidence: { interval: record.interval, graded: gradedShare(record) } }
}

/** Whether two evaluations played the same tasks, and how else they differ. */
export interface Comparability {
  /** Tasks of both sides whose rows differ: the same id but another task. */
  otherRows: string[]
  /** Tasks that only one side planned. */
  onlyBefore: string[]
  onlyAfter: string[]
  /** Settings that differ, in words, because they may explain the difference. */
  warnings: string[]
}

export function checkComparability(before: EvaluationRecord, after: EvaluationRecord): Comparability {
  const rowOf = (record: EvaluationRecord): Map<string, string> =>
    new Map(record.tasks.map(({ taskId, rowHash }) => [taskId, rowHash]))
  const [rowsBefore, rowsAfter] = [rowOf(before), rowOf(after)]
  const isIn = (rows: Map<string, string>) => (taskId: string) => rows.has(taskId)
  const shared = [...rowsBefore.keys()].filter(isIn(rowsAfter))
  return {
    otherRows: shared.filter((taskId) => rowsBefore.get(taskId) !== rowsAfter.get(taskId)),
    onlyBefore: [...rowsBefore.keys()].filter((taskId) => !rowsAfter.has(taskId)),
    onlyAfter: [...rowsAfter.keys()].filter((taskId) => !rowsBefore.has(taskId)),
    warnings: differingSettings(before, after),
  }
}

/** Displayed digits of a suite's hash, enough to distinguish two suites. */
const SHOWN = 12

function differingSettings(before: EvaluationRecord, after: EvaluationRecord): string[] {
  const pairs: [string, unknown, unknown][] = [
    ['suite', before.suite.slice(0, SHOWN), after.suite.slice(0, SHOWN)],
    ['attempts a task', before.attempts, after.attempts],
  ]
  if (before.conditions !== null && after.conditions !== null) {
    const [left, right] = [before.conditions, after.conditions]
    pairs.push(
      ['scaffold', left.scaffold, right.scaffold],
      ['demonstration', left.demonstration, right.demonstration],
      ['grading profiles', left.gradingProfiles, right.gradingProfiles],
      ...settingsOf('sampling', left.sampling, right.sampling),
      ...settingsOf('limits', left.limits, right.limits),
    )
  }
  return pairs.flatMap(([name, left, right]) => {
    const [was, is] = [JSON.stringify(left), JSON.stringify(right)]
    return was === is ? [] : [`${name}: ${was} against ${is}`]
  })
}

function settingsOf(name: string, before: object, after: object): [string, unknown, unknown][] {
  const [left, right] = [before as Record<string, unknown>, after as Record<string, unknown>]
  return [...new Set([...Object.keys(left), ...Object.keys(right)])]
    .sort()
    .map((key) => [`${name}.${key}`, left[key], right[key]])
}
