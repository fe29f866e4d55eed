import { readFile } from 'node:fs/promises'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { decodeText } from './decode-text.ts'

export interface LabelledRow {
  row: unknown
  /** Where it stands: `line 3` or `item 3`, counted from 1. */
  label: string
  /** Why there is no row. */
  broken?: LonghaulError
}

/**
 * Rows of a file: a JSON array, or JSON Lines (one object per line, blank lines skipped).
 * @throws LonghaulError `Config.NotFound` when there is no such file, `Task.Invalid` when it is not JSON
 */
export async function readRows(path: string): Promise<LabelledRow[]> {
  const rows = await scanRows(path)
  const broken = rows.find((row) => row.broken !== undefined)?.broken
  if (broken !== undefined) throw broken
  return rows
}

/** The same, with each line that is no JSON in its place among the rows. */
export async function scanRows(path: string): Promise<LabelledRow[]> {
  const text = (await readText(path)).replace(/^\uFEFF/, '')
  if (text.trimStart().startsWith('[')) return readArray(path, text)
  return text.split('\n').flatMap((line, index) => (line.trim() === '' ? [] : [readLine(path, line, index)]))
}

function readLine(path: string, line: string, index: number): LabelledRow {
  const label = `line ${index + 1}`
  try {
    return { row: parse(path, line, label), label }
  } catch (error) {
    if (isLonghaulError(error)) return { row: null, label, broken: error }
    throw error
  }
}

function readArray(path: string, text: string): LabelledRow[] {
  const rows = parse(path, text, 'whole file') as unknown[]
  return rows.map((row, index) => ({ row, label: `item ${index + 1}` }))
}

function parse(path: string, text: string, label: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new LonghaulError({
      code: 'Task.Invalid',
      message: `Expected JSON, got ${cause instanceof Error ? cause.message : String(cause)}`,
      details: { file: path, row: label },
      cause,
    })
  }
}

async function readText(path: string): Promise<string> {
  try {
    return decodeText(await readFile(path))
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected a file of task rows, but it cannot be read`,
      details: { file: path },
      cause,
    })
  }
}
