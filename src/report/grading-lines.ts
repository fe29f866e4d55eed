import type { GradingRecord, GradingScore } from '../contracts/grading.types.ts'
import { isChanged } from '../domain/grading-rules.ts'
import { requireMean, showInterval } from './means.ts'
import { type Table, text, number } from './tables.ts'
import type { VerdictComparison } from '../domain/statistics/compare-verdicts.ts'
import { type PassAt1, showMean } from '../domain/statistics/statistics.ts'
import { changeTable, flipTable } from './comparison-tables.ts'

/** Summary of a grading run for a terminal: counts, and the mean over both denominators with its interval. */
export function gradingLines({ counts, graded, official, source, suite, instances }: GradingRecord): string[] {
  const { resolved, unresolved, couldNotGrade, empty, incomplete } = counts
  const what =
    source.kind === 'predictions'
      ? `${instances.length} predictions for ${suite?.name ?? 'a suite'}`
      : `${instances.length} patches of ${source.run}`
  return [
    `${what}: ${resolved} resolved, ${unresolved} unresolved (${empty} empty), ${couldNotGrade} not graded${
      source.kind === 'predictions' ? `, ${incomplete} tasks without one` : ''
    }`,
    `resolved, of graded          ${describeScore(graded)}`,
    ...(source.kind === 'predictions'
      ? [`as official harnesses count  ${describeScore(official)}`]
      : [`not graded as unresolved     ${describeScore(official)}`]),
    ...notGraded(instances),
  ]
}

/** Verdicts that differ from the first ones; empty if there were no first ones. */
export function changesTable({ instances }: Pick<GradingRecord, 'instances'>): Table {
  const said = ({ kind, reason }: { kind: string; reason: string | null }): string =>
    reason === null ? kind : `${kind} (${reason})`
  return {
    title: 'Verdicts that changed',
    columns: [text('episode'), text('profile'), text('first'), text('now')],
    rows: instances.filter(isChanged).map((instance) => {
      const { episode, taskId, profile, before } = instance
      return [episode ?? taskId, profile, before === null ? '–' : said(before), said(instance)]
    }),
    notes: [],
  }
}

function describeScore(score: GradingScore | null): string {
  if (score === null) return '–'
  const { interval, tasks, attempts } = score
  const mean = requireMean('a grading run', { ...score, attempts: 1 })
  const patches = attempts === tasks ? '' : `, ${attempts} patches`
  return `${showMean(mean)}  (95 % interval ${showInterval(interval)}, n = ${tasks}${patches}, SEM over tasks)`
}

function notGraded(instances: GradingRecord['instances']): string[] {
  const reasons = Map.groupBy(
    instances.filter(({ kind }) => kind === 'could-not-grade'),
    ({ reason }) => reason ?? 'no reason',
  )
  return [...reasons]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([reason, of]) => `not graded: ${reason}  ${of.length}, such as ${of[0]?.episode ?? of[0]?.taskId}`)
}

/** Compares first verdicts with new ones, by the figures of every other comparison. */
export function regradeTables(compared: VerdictComparison): Table[] {
  const { comparison } = compared
  return [sideTable(compared), changeTable({ comparison }), flipTable({ comparison })].filter(
    ({ rows }) => rows.length > 0,
  )
}

function sideTable({ comparison: { before, after }, unpaired }: VerdictComparison): Table {
  const row = (side: string, { mean, sem, semOver, tasks, attempts }: PassAt1): string[] => {
    const shown = requireMean(`${side} verdicts`, { mean, sem, tasks, attempts: Math.ceil(attempts / tasks) })
    return [side, showMean(shown), semOver, String(tasks), String(attempts)]
  }
  return {
    title: 'Resolved, of patches with both verdicts',
    columns: [text('verdicts'), number('resolved ± SEM'), text('SEM over'), number('tasks'), number('patches')],
    rows: [row('first', before), row('now', after)],
    notes:
      unpaired === 0
        ? []
        : [`${unpaired} ${unpaired === 1 ? 'patch' : 'patches'} without a verdict on one side: left out of both.`],
  }
}
