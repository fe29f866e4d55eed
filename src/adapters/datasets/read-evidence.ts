import { LonghaulError } from '../../contracts/errors.ts'
import type { TaskEvidence } from '../../contracts/suites.types.ts'
import { readInputFile } from '../../platform/input-file.ts'
import { readRows } from './read-source.ts'

/**
 * Reads the results of running tasks, one JSON object per line.
 * @throws LonghaulError `Config.NotFound` without the file, `Task.Invalid` with the invalid line
 */
export async function readEvidence(path: string): Promise<Map<string, TaskEvidence>> {
  const evidence = new Map<string, TaskEvidence>()
  for (const { row, label } of await readRows(path, 'a file of evidence')) {
    if (!isEvidence(row) || evidence.has(row.instance_id)) {
      throw new LonghaulError({
        code: 'Task.Invalid',
        message: 'Expected {instance_id, emptyLog?, goldRuns?, gold?} of a task that has no other line',
        details: { file: path, row: label },
      })
    }
    evidence.set(row.instance_id, row)
  }
  return evidence
}

/** Reads instance ids, one per line; blank lines and lines that begin with # are skipped. */
export async function readIds(path: string): Promise<string[]> {
  const text = await readInputFile({ path, what: 'a file of instance ids' })
  const ids = text.split(/\r?\n/).map((line) => line.trim())
  return ids.filter((line) => line !== '' && !line.startsWith('#'))
}

function isEvidence(value: unknown): value is TaskEvidence {
  if (typeof value !== 'object' || value === null) return false
  const { instance_id: id, emptyLog, goldRuns, gold } = value as Record<string, unknown>
  const isLog = emptyLog === undefined || typeof emptyLog === 'string'
  const isRuns = goldRuns === undefined || (Array.isArray(goldRuns) && goldRuns.every(isStatuses))
  return typeof id === 'string' && isLog && isRuns && (gold === undefined || isSummary(gold))
}

function isSummary(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { runs, flipping } = value as Record<string, unknown>
  return Number.isInteger(runs) && Array.isArray(flipping) && flipping.every((test) => typeof test === 'string')
}

function isStatuses(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every((item) => typeof item === 'string')
}
