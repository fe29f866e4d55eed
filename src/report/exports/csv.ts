/** CSV as RFC 4180 has it: UTF-8 without a mark, CRLF, quotes doubled. Texts are made harmless for programs that run formulas. */
import { showHidden } from '../hostile-text.ts'
import type { ColumnType, ColumnValue } from './episode-columns.ts'

export interface CsvColumn {
  name: string
  type: ColumnType
}

export function csvHeader(columns: readonly CsvColumn[]): string {
  return csvLine(columns.map(({ name }) => name))
}

export function csvRow(columns: readonly CsvColumn[], values: readonly ColumnValue[]): string {
  return csvLine(values.map((value, at) => csvCell(value, columns[at]?.type ?? 'text')))
}

function csvLine(cells: readonly string[]): string {
  return `${cells.join(',')}\r\n`
}

/** A text that begins so is a formula for a spreadsheet, or would lose its own apostrophe to one. */
const FORMULA = /^(?:\s*[=+\-@＝＋－＠']|[\t\n])/

/** Null is an empty cell. */
export function csvCell(value: ColumnValue, type: ColumnType): string {
  if (value === null) return ''
  if (type === 'time') return new Date(Number(value)).toISOString()
  if (typeof value !== 'string') return String(value)
  const shown = showHidden(value)
  const text = FORMULA.test(shown) ? `'${shown}` : shown
  return /[",;\s]|^$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
