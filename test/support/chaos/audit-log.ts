/** The effects of workers on the outside world, recorded by the wrappers around their adapters: one line per call, in one file per
 *  process, which no fault of the artifact store reaches. */
import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type AuditEntry = { atMs: number; process: string } & (
  | { kind: 'opened'; episode: string; placement: number; container: string }
  | { kind: 'turn-begins'; container: string; turn: number; token: string; fence: number }
  /** `code` is null if the sandbox answered with a result. */
  | { kind: 'turn-ends'; container: string; turn: number; token: string; code: string | null }
  | { kind: 'store-failed'; key: string; code: string }
  | { kind: 'store-slow'; key: string }
  | { kind: 'clock-shifted'; ms: number }
)

type Noted = AuditEntry extends infer One ? (One extends AuditEntry ? Omit<One, 'atMs' | 'process'> : never) : never

export type AuditLog = (entry: Noted) => void

/** @param folder empty: nothing is recorded */
export function openAuditLog({ folder, process }: { folder: string; process: string }): AuditLog {
  if (folder === '') return () => undefined
  // Synchronous, so that a killed process has recorded what it began.
  return (entry) =>
    appendFileSync(join(folder, `${process}.jsonl`), `${JSON.stringify({ atMs: now(), process, ...entry })}\n`)
}

/** Entries of all processes in order of time. A line that a kill cut off is left out. */
export function readAuditLog(folder: string): AuditEntry[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
    .flatMap(parseLine)
    .toSorted((one, other) => one.atMs - other.atMs)
}

/** A fault may have moved this process's wall clock. */
function now(): number {
  return Math.round(performance.timeOrigin + performance.now())
}

function parseLine(line: string): AuditEntry[] {
  try {
    return [JSON.parse(line) as AuditEntry]
  } catch {
    return []
  }
}
