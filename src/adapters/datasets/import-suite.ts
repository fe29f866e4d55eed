import { isLonghaulError } from '../../contracts/errors.ts'
import type { ImportedSuite, ImportSource, RefusedRow, SuiteFilter } from '../../contracts/suites.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { applyFilters, type Evidence } from '../../domain/suite-filters.ts'
import { LOG_PROFILES } from '../../grading/log-profiles.ts'
import { canonicalHash } from './canonical-hash.ts'
import { normalizeRow } from './normalize-row.ts'
import type { LabelledRow } from './read-rows.ts'
import { readSource, type SourceRows } from './read-source.ts'

export interface AcceptedRow {
  task: Task
  row: Record<string, unknown>
  meta: Record<string, unknown> | null
}

export interface ImportInput {
  source: ImportSource
  filters?: readonly SuiteFilter[]
  evidence?: Evidence
  /** Where the hub answers; null: the public one. */
  hubUrl?: string | null
}

/**
 * Reads a source, checks every row and filters those that can be graded exactly. Refused rows are part of the result: the
 * caller decides whether a suite without them is wanted.
 * @throws LonghaulError for a source that cannot be read
 */
export async function importSuite(input: ImportInput): Promise<{ suite: ImportedSuite; kept: AcceptedRow[] }> {
  const read = await readSource(input.source, { hubUrl: input.hubUrl ?? null })
  const { accepted, refused } = checkRows(read.rows)
  const { kept, counts } = applyFilters(accepted, input.filters ?? [], input.evidence)
  const tasks = kept.map(({ task }) => ({ taskId: task.taskId, rowHash: task.rowHash }))
  const suite: ImportedSuite = {
    schema: 'longhaul.imported-suite/1',
    hash: canonicalHash([identity(input.source, read), counts.map(({ filter }) => filter), tasks]),
    source: input.source,
    files: read.files,
    counts: { rows: read.rows.length, refused: refused.length, accepted: accepted.length, kept: kept.length },
    filters: counts,
    profiles: countProfiles(kept),
    unsupported: kept.filter(({ task }) => !isSupported(task)).length,
    refused,
    tasks,
  }
  return { suite, kept }
}

export function isSupported({ gradingProfile, installConfig }: Task): boolean {
  return LOG_PROFILES[gradingProfile].parsers.has(installConfig.logParser)
}

/** All rows, so that one run shows all that is wrong. An id twice would be one task with two contents. */
export function checkRows(rows: readonly LabelledRow[]): { accepted: AcceptedRow[]; refused: RefusedRow[] } {
  const accepted: AcceptedRow[] = []
  const refused: RefusedRow[] = []
  const seen = new Map<string, number>()
  for (const [index, { row, label, broken }] of rows.entries()) {
    const refuse = (taskId: string | null, column: string, reason: string) =>
      refused.push({ row: index + 1, at: label, taskId, column, reason })
    try {
      if (broken !== undefined) throw broken
      const task = normalizeRow(row, { label })
      const earlier = seen.get(task.taskId)
      if (earlier !== undefined)
        refuse(task.taskId, 'instance_id', `Expected an id of its own, got that of row ${earlier}`)
      else accepted.push({ task, row: row as Record<string, unknown>, meta: metaOf(row) })
      seen.set(task.taskId, earlier ?? index + 1)
    } catch (error) {
      if (!isLonghaulError(error) || error.code !== 'Task.Invalid') throw error
      refuse(idOf(row), String(error.details['column'] ?? '(row)'), error.message.replace(/ \[[^[\]]*\]$/, ''))
    }
  }
  return { accepted, refused }
}

function identity(source: ImportSource, { files }: SourceRows): unknown {
  return source.kind === 'hub' ? source : files
}

function idOf(row: unknown): string | null {
  const id = (row as { instance_id?: unknown } | null)?.instance_id
  return typeof id === 'string' ? id : null
}

/** Accepted rows have an object there, JSON text of one, or nothing. */
function metaOf(row: unknown): AcceptedRow['meta'] {
  const { meta } = row as { meta?: unknown }
  if (typeof meta !== 'string') return (meta ?? null) as AcceptedRow['meta']
  return meta === '' ? null : (JSON.parse(meta) as AcceptedRow['meta'])
}

function countProfiles(kept: readonly AcceptedRow[]): Record<string, number> {
  const profiles: Record<string, number> = {}
  for (const { task } of kept) profiles[task.gradingProfile] = (profiles[task.gradingProfile] ?? 0) + 1
  return profiles
}
