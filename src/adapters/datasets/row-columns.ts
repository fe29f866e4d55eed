import { LonghaulError } from '../../contracts/errors.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { instant } from '../../domain/instant.ts'
import { isNestedBeyond, isObject } from '../../domain/shapes.ts'

/** Far more than any publication nests. */
const MOST_NESTED = 100

type UnknownRow = Record<string, unknown>

/** Reads the columns of one row. Every refusal names the row, the column, the expectation and the value. */
export class RowColumns {
  readonly #row: UnknownRow
  readonly #label: string

  /** @param fallbackLabel position of the row (line number), for rows without a usable id */
  constructor(row: unknown, fallbackLabel: string) {
    this.#label = fallbackLabel
    if (!isObject(row)) throw this.#refuse('(row)', 'an object', row)
    this.#row = row
    for (const [column, value] of Object.entries(row)) this.#requireFlat(column, value)
    const id = row['instance_id']
    if (typeof id === 'string' && id !== '') this.#label = id
  }

  /** Required, non-empty text. It is not changed: patches and ids are never trimmed. */
  text(column: string): string {
    const value = this.#row[column]
    if (typeof value !== 'string' || value === '') throw this.#refuse(column, 'a non-empty text', value)
    if (!value.isWellFormed()) throw this.#refuse(column, 'text without lone surrogates', '(lone surrogate)')
    return value
  }

  optionalText(column: string): string | null {
    const value = this.#row[column]
    return value === undefined || value === null || value === '' ? null : this.text(column)
  }

  /** Whether the row has this column, even with the value null. */
  has(column: string): boolean {
    return Object.hasOwn(this.#row, column)
  }

  /** Text or a number, as text, because some publications store versions as numbers. Null if absent. */
  optionalWord(column: string): string | null {
    const value = this.#row[column]
    return typeof value === 'number' && Number.isFinite(value) ? String(value) : this.optionalText(column)
  }

  /** ISO text as published; a number counts as milliseconds since 1970. Null if absent. */
  optionalDate(column: string): string | null {
    const value = this.#row[column]
    if (typeof value === 'number' || typeof value === 'bigint' || value instanceof Date) {
      const date = new Date(typeof value === 'bigint' ? Number(value) : value)
      if (!Number.isNaN(date.getTime())) return date.toISOString()
    }
    const text = typeof value === 'string' ? this.optionalText(column) : (value ?? null)
    if (text !== null && (typeof text !== 'string' || instant(text) === null)) {
      throw this.#refuse(column, 'a date', text)
    }
    return text
  }

  /** A list of texts, or its JSON text. Order and duplicates are kept. */
  texts(column: string): string[] {
    const value = this.#parsed(column)
    const isTexts = Array.isArray(value) && value.every((item) => typeof item === 'string' && item !== '')
    if (!isTexts) throw this.#refuse(column, 'a list of non-empty texts', value)
    if (!value.every((item: string) => item.isWellFormed())) {
      throw this.#refuse(column, 'texts without lone surrogates', '(lone surrogate)')
    }
    return value as string[]
  }

  /** An object, or its JSON text; null if absent. */
  object(column: string): UnknownRow | null {
    const value = this.#parsed(column)
    if (value === undefined || value === null || value === '') return null
    if (!isObject(value)) throw this.#refuse(column, 'an object', value)
    return value
  }

  refuse(column: string, expected: string, got: unknown): LonghaulError {
    return this.#refuse(column, expected, got)
  }

  #parsed(column: string): unknown {
    const value = this.#row[column]
    if (typeof value !== 'string' || value === '') return value
    let parsed: unknown
    try {
      parsed = JSON.parse(value)
    } catch {
      throw this.#refuse(column, 'JSON', value)
    }
    this.#requireFlat(column, parsed)
    return parsed
  }

  #requireFlat(column: string, value: unknown): void {
    if (isNestedBeyond(value, MOST_NESTED)) throw this.#refuse(column, `nested at most ${MOST_NESTED} deep`, '(more)')
  }

  #refuse(column: string, expected: string, got: unknown): LonghaulError {
    return new LonghaulError({
      code: 'Task.Invalid',
      message: `Expected ${column} to be ${expected}, got ${abbreviate(got)}`,
      details: { row: this.#label, column },
    })
  }
}

/**
 * The commit whose dependencies an image gets. The fork and V2 use the base commit, whatever the row says.
 * @throws LonghaulError `Task.Invalid`
 */
export function setupCommitOf(
  columns: RowColumns,
  { gradingProfile, baseCommit }: Pick<Task, 'gradingProfile' | 'baseCommit'>,
): string {
  const isFixed = gradingProfile === 'fork-4.0.3' || gradingProfile === 'rebench-v2'
  const commit = isFixed ? baseCommit : (columns.optionalText('environment_setup_commit') ?? baseCommit)
  if (/^[0-9a-f]{7,40}$/.test(commit)) return commit
  throw columns.refuse('environment_setup_commit', 'a commit id', commit)
}

function abbreviate(value: unknown): string {
  if (isNestedBeyond(value, MOST_NESTED)) return 'a deeply nested value'
  const text = typeof value === 'bigint' ? String(value) : (JSON.stringify(value) ?? 'nothing')
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`
}
