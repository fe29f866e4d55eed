/** CSV by RFC 4180: UTF-8 without a byte order mark, CRLF, doubled quotes. Spreadsheets do not run its texts as formulas. */
import { showHidden } from '../../domain/hostile-text.ts'
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

/** A spreadsheet takes such a text for a formula, or drops its leading apostrophe. */
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
