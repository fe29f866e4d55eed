import { isLonghaulError } from '../../contracts/errors.ts'
import type { RefusedRow } from '../../contracts/suites.types.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { normalizeRow } from './normalize-row.ts'
import type { LabelledRow } from './read-source.ts'

export interface AcceptedRow {
  task: Task
  row: Record<string, unknown>
  meta: Record<string, unknown> | null
}

/** Checks all rows, so that one run reports every problem. A repeated id would be one task with two contents. */
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
      const id = idKey(task.taskId)
      const earlier = seen.get(id)
      if (earlier !== undefined) refuse(task.taskId, 'instance_id', `Expected a unique id, got that of row ${earlier}`)
      else accepted.push({ task, row: row as Record<string, unknown>, meta: metaOf(row) })
      seen.set(id, earlier ?? index + 1)
    } catch (error) {
      if (!isLonghaulError(error) || error.code !== 'Task.Invalid') throw error
      refuse(idOf(row), String(error.details['column'] ?? '(row)'), error.message.replace(/ \[[^[\]]*\]$/, ''))
    }
  }
  return { accepted, refused }
}

/** Ids that differ in case alone are one: the images of their tasks have one name, in small letters. */
export function idKey(taskId: string): string {
  return taskId.toLowerCase()
}

function idOf(row: unknown): string | null {
  const id = (row as { instance_id?: unknown } | null)?.instance_id
  return typeof id === 'string' ? id : null
}

/** Returns the meta object of an accepted row, which is an object, its JSON text, or absent. */
export function metaOf(row: unknown): AcceptedRow['meta'] {
  const { meta } = row as { meta?: unknown }
  if (typeof meta !== 'string') return (meta ?? null) as AcceptedRow['meta']
  return meta === '' ? null : (JSON.parse(meta) as AcceptedRow['meta'])
}
