/** What workers did to the world, noted by the wrappers around their adapters: one line a call, in a file of each process that
 *  no fault of the artifact store reaches. */
import { appendFileSync, existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export type AuditEntry = { atMs: number; process: string } & (
  | { kind: 'opened'; episode: string; placement: number; container: string }
  | { kind: 'turn-begins'; container: string; turn: number; token: string; fence: number }
  /** `code` is null where the sandbox answered with a result. */
  | { kind: 'turn-ends'; container: string; turn: number; token: string; code: string | null }
  | { kind: 'store-failed'; key: string; code: string }
  | { kind: 'store-slow'; key: string }
  | { kind: 'clock-shifted'; ms: number }
)

type Noted = AuditEntry extends infer One ? (One extends AuditEntry ? Omit<One, 'atMs' | 'process'> : never) : never

export type AuditLog = (entry: Noted) => void

/** @param folder empty: nothing is noted */
export function openAuditLog({ folder, process }: { folder: string; process: string }): AuditLog {
  if (folder === '') return () => undefined
  // At once, so that a process that is killed has said what it began.
  return (entry) =>
    appendFileSync(join(folder, `${process}.jsonl`), `${JSON.stringify({ atMs: now(), process, ...entry })}\n`)
}

/** Of all processes, in the order of time. A line that was cut by a kill is left out. */
export function readAuditLog(folder: string): AuditEntry[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .flatMap((name) => readFileSync(join(folder, name), 'utf8').split('\n'))
    .flatMap(parseLine)
    .toSorted((one, other) => one.atMs - other.atMs)
}

/** The clock of this process may have been set ahead. */
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
