import { showControls } from '../domain/hostile-text.ts'
import { auditDifferenceTable, auditedTable, contaminationTable } from './evaluation-tables.ts'
import { judgeGain, showSigned } from './means.ts'
import type { ReportData } from './report-data.ts'
import { ledgerTable, nightTable, pairedTable, scoreTable, suspectTable, type Table } from './tables.ts'

/** Summary of a run for a terminal: scores, differences, ledger. No escape codes. */
export function renderTextReport(data: ReportData): string {
  const sections = [
    scoreTable,
    auditedTable,
    auditDifferenceTable,
    pairedTable,
    nightTable,
    contaminationTable,
    ledgerTable,
    suspectTable,
  ]
    .map((make) => make(data))
    .filter(({ rows }) => rows.length > 0)
  return `${[...sections.map(renderTable), ...unproven(data)].join('\n\n')}\n`
}

/** States which gains are not proven, so that readers need not compare figures with their errors. */
export function unproven({ paired }: ReportData): string[] {
  const doubtful = paired.filter((pair) => ['not-proven', 'too-little'].includes(judgeGain(pair)))
  const losses = paired.filter((pair) => judgeGain(pair) === 'loss')
  return [
    ...losses.map(
      ({ before, after, mean }) =>
        `${after} is worse than ${before} (${showSigned(mean)}): this run did not learn there.`,
    ),
    ...doubtful.map(
      ({ before, after, mean, tasks }) =>
        `A gain of ${after} over ${before} is not proven by ${tasks} tasks (${showSigned(mean)}): more tasks or attempts would tell.`,
    ),
  ]
}

export function renderTable({ title, columns, rows, notes }: Table): string {
  const widths = columns.map(({ name }, column) =>
    Math.max(width(name), ...rows.map((row) => width(clean(row[column] ?? '')))),
  )
  const line = (cells: string[]): string =>
    cells
      .map((cell, column) => {
        const padding = ' '.repeat(Math.max(0, (widths[column] ?? 0) - width(cell)))
        return columns[column]?.numeric ? padding + cell : cell + padding
      })
      .join('  ')
      .trimEnd()
  return [
    title,
    line(columns.map(({ name }) => name)),
    line(widths.map((wide) => '─'.repeat(wide))),
    ...rows.map((row) => line(row.map(clean))),
    ...notes.map((note) => `  ${note}`),
  ].join('\n')
}

/** Names come from data sets and models, and a terminal must not interpret them. */
function clean(cell: string): string {
  return showControls(cell).replaceAll(/[\t\n]/g, ' ')
}

function width(cell: string): number {
  return Array.from(cell).length
}
