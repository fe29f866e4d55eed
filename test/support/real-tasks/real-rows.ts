/** Rows of one published result that several commands measured, each at its own commit. */
import type { Provenance } from '../../../bench/support/versions.ts'
import type { AuditVerdict } from '../../../src/contracts/audit.types.ts'

export interface MeasuredRow {
  taskId: string
  /** Absent in results from before rows had their own; the file's provenance then applies to all rows. */
  measured?: Provenance
  image: { did: string }
}

interface KeptRowsInput<T extends MeasuredRow> {
  before: { provenance: Provenance; results: readonly T[] }
  /** Tasks that this command measures. */
  chosen: readonly string[]
  /** Also keeps chosen rows that the same code has measured. */
  isContinued: boolean
  codeHash: string | null
}

export interface KeptRows<T> {
  /** Rows that this command does not measure again. */
  kept: Map<string, T>
  /** Rows that stay until this command has measured them again, because it may be interrupted before. */
  outdated: Map<string, T>
}

/** Divides the rows of a result. A row of other code is kept only if this command does not measure it. */
export function keptRows<T extends MeasuredRow>(input: KeptRowsInput<T>): KeptRows<T & { measured: Provenance }> {
  const { before, chosen, isContinued, codeHash } = input
  const rows = before.results.map((row) => ({ ...row, measured: row.measured ?? before.provenance }))
  const { true: kept = [], false: outdated = [] } = Object.groupBy(rows, ({ taskId, image, measured }) =>
    String(!chosen.includes(taskId) || (isContinued && image.did !== 'failed' && measured.codeHash === codeHash)),
  )
  const byId = (some: typeof rows) => new Map(some.map((row) => [row.taskId, row]))
  return { kept: byId(kept), outdated: byId(outdated) }
}

/** Provenance of the whole result: it is as old as its oldest row, and dirty if any row is. */
export function provenanceOfRows(rows: readonly { measured: Provenance }[]): Provenance | null {
  const [oldest] = rows.map(({ measured }) => measured).toSorted((one, other) => (one.date < other.date ? -1 : 1))
  return oldest === undefined ? null : { ...oldest, dirty: rows.some(({ measured }) => measured.dirty) }
}

interface Grading {
  gradeMs: number
  /** Absent in results from before audits were stored. */
  audit?: AuditVerdict | null
}

/** Time of a grading with its audit divided by its time without. Null if no tests were audited. */
export function timesWithAudit({ gradeMs, audit = null }: Grading): number | null {
  const isTested = audit !== null && audit.outcome !== 'unsupported'
  return isTested && gradeMs > 0 ? Math.round((100 * (gradeMs + audit.auditMs)) / gradeMs) / 100 : null
}

export interface AuditCost {
  gradings: number
  officialSeconds: number
  auditSeconds: number
  /** Over single gradings; for an even number the median is the upper of the two middle values. */
  times: { least: number; median: number; most: number } | null
}

export function auditCost(gradings: readonly Grading[]): AuditCost {
  const audited = gradings.flatMap((grading) => {
    const times = timesWithAudit(grading)
    return times === null ? [] : [{ times, officialMs: grading.gradeMs, auditMs: grading.audit?.auditMs ?? 0 }]
  })
  const sorted = audited.map(({ times }) => times).toSorted((one, other) => one - other)
  const [least, median, most] = [sorted[0], sorted[Math.floor(sorted.length / 2)], sorted.at(-1)]
  const seconds = (ms: number): number => Math.round(ms / 1000)
  return {
    gradings: audited.length,
    officialSeconds: seconds(audited.reduce((sum, { officialMs }) => sum + officialMs, 0)),
    auditSeconds: seconds(audited.reduce((sum, { auditMs }) => sum + auditMs, 0)),
    times: least === undefined || median === undefined || most === undefined ? null : { least, median, most },
  }
}
