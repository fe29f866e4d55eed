/** First verdicts against new ones, with the figures of every other comparison. */
import type { VerdictComparison } from '../domain/statistics/compare-verdicts.ts'
import type { PassAt1 } from '../domain/statistics/statistics.ts'
import { changeTable, flipTable } from './comparison-tables.ts'
import { requireMean, showMean } from './means.ts'
import { number, type Table, text } from './tables.ts'

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
