/**
 * A measurement in pieces of a few minutes. Finished pieces are stored in a state file, so after a call was killed or its machine was
 * taken away, the next call continues with the first unfinished piece. State of other code or of another device is set aside as a
 * whole.
 */
import { mkdir, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { isLonghaulError, LonghaulError } from '../../../src/contracts/errors.ts'
import { withDirectoryLock } from '../../../src/platform/directory-lock.ts'
import { readJson, writeFileAtomically } from '../../../src/platform/files.ts'

export interface Piece {
  /** For example `speed/qwen3-0.6b/compile`; `--only` takes a prefix. */
  name: string
  /** Pieces whose results this one needs. */
  after?: readonly string[]
  /** A piece that takes longer is ended and has failed. */
  minutes: number
  run: (signal: AbortSignal) => Promise<PieceResult>
}

export interface PieceResult {
  /** Number of figures that were compared. */
  compared: number
  /** A description of each exceeded limit. */
  violations: readonly string[]
  facts: Record<string, unknown>
}

export type PieceRecord = {
  startedAt: string
  seconds: number
} & (({ status: 'done' } & PieceResult) | { status: 'failed'; error: string })

export interface StateKey {
  /** Hash of the measured code. */
  codeHash: string
  /** Name and number of GPUs, or that there is none. */
  device: string
}

export interface PiecesState {
  schema: 'longhaul.gpu-pieces/1'
  key: StateKey
  pieces: Record<string, PieceRecord>
}

interface RunPiecesInput {
  pieces: readonly Piece[]
  key: StateKey
  /** Folder of the state file. */
  directory: string
  /** No piece starts later than this after the call. @default no limit */
  minutes?: number | undefined
  signal?: AbortSignal | undefined
  say: (line: string) => void
}

export interface PiecesEnd {
  state: PiecesState
  /** Pieces that did not start, because no time was left or a piece that they need failed. */
  left: string[]
}

const FILE = 'pieces.json'
const LOCK_MS = 1_000

/**
 * Runs every unfinished piece, each at most once. The next call retries a failed piece.
 * @throws LonghaulError `Config.Invalid` if another call uses the same state
 */
export async function runPieces(input: RunPiecesInput): Promise<PiecesEnd> {
  const { directory, say } = input
  await mkdir(directory, { recursive: true })
  try {
    // The first try detects a killed holder, the second replaces it.
    return await withDirectoryLock({ path: join(directory, 'lock'), timeoutMs: LOCK_MS }, async () =>
      runLocked(input, await readState(input)),
    )
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Stack.SetupFailed') throw error
    throw invalid(`Expected no other call at work on ${directory}: wait for it, or name another --state`)
  } finally {
    say(`state   ${join(directory, FILE)}`)
  }
}

async function runLocked(
  { pieces, directory, minutes = Number.POSITIVE_INFINITY, signal, say }: RunPiecesInput,
  state: PiecesState,
): Promise<PiecesEnd> {
  const endMs = Date.now() + minutes * 60_000
  const left: string[] = []
  const isInterrupted = (): boolean => signal?.aborted === true
  for (const piece of pieces) {
    const known = state.pieces[piece.name]
    if (known?.status === 'done') {
      say(`kept    ${piece.name} (${known.startedAt})`)
      continue
    }
    const missing = (piece.after ?? []).filter((name) => state.pieces[name]?.status !== 'done')
    if (isInterrupted() || Date.now() >= endMs || missing.length > 0) {
      say(`left    ${piece.name}${missing.length > 0 ? `: ${missing.join(', ')} has not ended` : ''}`)
      left.push(piece.name)
      continue
    }
    say(`begins  ${piece.name}`)
    const record = await runPiece(piece, signal)
    // An interrupted piece has neither finished nor failed.
    if (isInterrupted()) {
      left.push(piece.name)
      continue
    }
    state.pieces[piece.name] = record
    await writeFileAtomically(join(directory, FILE), `${JSON.stringify(state, null, 1)}\n`)
    const violations = record.status === 'done' ? record.violations : [record.error]
    say(`${record.status === 'done' ? 'ended ' : 'FAILED'}  ${piece.name} after ${record.seconds} s`)
    for (const violation of violations) say(`        ${violation}`)
  }
  return { state, left }
}

async function runPiece({ minutes, run }: Piece, outer: AbortSignal | undefined): Promise<PieceRecord> {
  const started = Date.now()
  const limit = AbortSignal.timeout(minutes * 60_000)
  const about = () => ({
    startedAt: new Date(started).toISOString(),
    seconds: Math.round((Date.now() - started) / 100) / 10,
  })
  try {
    const result = await run(outer === undefined ? limit : AbortSignal.any([limit, outer]))
    return { ...about(), status: 'done', ...result }
  } catch (error) {
    const why = limit.aborted ? `it took longer than ${minutes} minutes` : (error as Error).message
    return { ...about(), status: 'failed', error: why }
  }
}

async function readState({ directory, key, say }: RunPiecesInput): Promise<PiecesState> {
  const path = join(directory, FILE)
  const found = await readJson<PiecesState>(path)
  if (found === null) return { schema: 'longhaul.gpu-pieces/1', key, pieces: {} }
  const changed = found.key.codeHash === key.codeHash ? (found.key.device === key.device ? null : 'device') : 'code'
  if (changed === null) return found
  const aside = join(directory, `pieces-${found.key.codeHash.slice(0, 8)}-${Date.now()}.json`)
  await rename(path, aside)
  const what = changed === 'code' ? 'other code' : `another device (${found.key.device}, now ${key.device})`
  say(`set aside ${Object.keys(found.pieces).length} pieces of ${what}: ${aside}`)
  return { schema: 'longhaul.gpu-pieces/1', key, pieces: {} }
}

/** 1 if a piece failed or exceeded a limit, 3 if pieces are left, 2 if nothing was compared, 0 otherwise. */
export function exitCodeOf({ state, left }: PiecesEnd, names: readonly string[]): 0 | 1 | 2 | 3 {
  const ended = names.flatMap((name) => state.pieces[name] ?? [])
  if (ended.some((record) => record.status === 'failed' || record.violations.length > 0)) return 1
  if (left.length > 0) return 3
  return ended.some((record) => record.status === 'done' && record.compared > 0) ? 0 : 2
}

function invalid(message: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, details: {} })
}
