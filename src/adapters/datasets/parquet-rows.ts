import type { AsyncBuffer } from 'hyparquet'
import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'

/** What an import may hold. Files of data sets are foreign: some kilobytes can name gigabytes. */
export interface ImportLimits {
  rows: number
  /** Of one column of one row, lists and structures with all that is in them. */
  cellBytes: number
  /** Of all rows, as they are unpacked. */
  bytes: number
  /** Of the process that reads a file: a row group, packed and unpacked, and what damaged files make of it. */
  memoryBytes: number
}

/** By the files of an import before this one. */
export interface ImportedSoFar {
  rows: number
  bytes: number
}

export type ToReader =
  | { kind: 'read'; byteLength: number; limits: ImportLimits; used: ImportedSoFar }
  | { kind: 'part'; id: number; bytes: Uint8Array }

export type FromReader =
  | { kind: 'slice'; id: number; start: number; end: number }
  | { kind: 'rows'; rows: unknown[]; bytes: number }
  | { kind: 'over'; limit: 'rows' | 'bytes'; got: number }
  | { kind: 'cell'; got: number; row: number; column: string }
  | { kind: 'failed'; message: string }
  | { kind: 'end' }

const VARIABLE = 'LONGHAUL_IMPORT_MAX_GIB'
const DEFAULT_GIB = '2'
const MIB = 1024 ** 2
const ROWS_OF_A_GIB = 500_000

/** Of reading without a sign of life; fetching is bounded by itself. */
const SILENCE_MS = 600_000
const LOOK_MS = 100

/** Limits of imports, all raised by one variable. @throws LonghaulError `Config.Invalid` */
export function readImportLimits(env: NodeJS.ProcessEnv = process.env): ImportLimits {
  const text = env[VARIABLE] ?? DEFAULT_GIB
  const gib = Number(text)
  if (text === '' || !Number.isFinite(gib) || gib <= 0) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected ${VARIABLE} to be a number above 0, got ${JSON.stringify(text)}`,
    })
  }
  return {
    rows: Math.ceil(gib * ROWS_OF_A_GIB),
    cellBytes: Math.ceil(gib * 32 * MIB),
    bytes: Math.ceil(gib * 1024 * MIB),
    memoryBytes: Math.ceil((gib + 1) * 1024 * MIB),
  }
}

interface ReadParquetInput {
  file: AsyncBuffer
  /** Named in labels and messages. */
  name: string
  /** Of all files of the import. */
  limits: ImportLimits
  used: ImportedSoFar
  onRows: (rows: unknown[], bytes: number) => void
}

/**
 * Rows of a Parquet file in order, one row group after another, so that only those that are asked for are fetched. A process of its own
 * reads them: the library allocates what a file says before it can be asked, and where memory ends, a thread ends its whole process.
 * @throws LonghaulError `Task.Invalid` when it is not a Parquet file that can be read, or one that holds more than the limits
 */
export async function readParquet({ file, name, limits, used, onRows }: ReadParquetInput): Promise<void> {
  const reader = fork(fileURLToPath(new URL(`./read-parquet.${extension}`, import.meta.url)), [], {
    serialization: 'advanced',
    execArgv: [`--max-old-space-size=${Math.max(64, Math.ceil(limits.memoryBytes / MIB))}`],
    // It reads what strangers wrote, and needs no setting and no key of ours.
    env: {},
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  })
  try {
    await new Promise<void>((resolve, reject) => {
      const watch = watchReader({ reader, name, limits, reject })
      // Fetched, or sent and not yet taken: the file says how much is wanted at once, and all of it is here meanwhile.
      let heldBytes = 0
      const fetchPart = async ({ id, start, end }: Extract<FromReader, { kind: 'slice' }>): Promise<void> => {
        const bytes = Math.max(0, end - start)
        heldBytes += bytes
        if (heldBytes > limits.bytes) {
          throw tooLarge(name, excessOf({ kind: 'over', limit: 'bytes', got: heldBytes }, limits))
        }
        watch.fetching(1)
        const part = await file.slice(start, end)
        watch.fetching(-1)
        await tell(reader, { kind: 'part', id, bytes: new Uint8Array(part) })
        heldBytes -= bytes
      }
      reader.on('error', (cause) => reject(unreadable(name, cause.message, cause)))
      reader.on('exit', (code, signal) => {
        // The kernel, or the engine of the language, has ended it: none of its own answers looks like that.
        if (signal !== null || code !== 0)
          reject(tooLarge(name, `${memoryOf(limits)}, its reader ended (${signal ?? code})`))
        else reject(unreadable(name, 'the end of its reader'))
      })
      reader.on('message', (message: FromReader) => {
        watch.heard()
        switch (message.kind) {
          case 'slice':
            fetchPart(message).catch((error: unknown) =>
              reject(isLonghaulError(error) ? error : unreadable(name, String(error), error)),
            )
            return
          case 'rows':
            return onRows(message.rows, message.bytes)
          case 'over':
          case 'cell':
            return reject(tooLarge(name, excessOf(message, limits)))
          case 'failed':
            return reject(unreadable(name, message.message))
          case 'end':
            return resolve()
        }
      })
      void tell(reader, { kind: 'read', byteLength: file.byteLength, limits, used })
    })
  } finally {
    reader.kill('SIGKILL')
  }
}

const extension = import.meta.url.endsWith('.ts') ? 'ts' : 'js'

/** A reader that has ended says so by its exit. */
function tell(reader: ChildProcess, message: ToReader): Promise<void> {
  return new Promise((resolve) => {
    if (reader.connected) reader.send(message, () => resolve())
    else resolve()
  })
}

interface WatchInput {
  reader: ChildProcess
  name: string
  limits: ImportLimits
  reject: (error: LonghaulError) => void
}

interface Watch {
  heard(): void
  /** While the reader waits for bytes of the file, its silence is not its own. */
  fetching(more: 1 | -1): void
}

/** Looks at the reader until it has ended: whether it says anything, and how much memory it has. */
function watchReader({ reader, name, limits, reject }: WatchInput): Watch {
  let heardAt = performance.now()
  let fetches = 0
  const look = (): void => {
    if (memoryBytesOf(reader.pid) > limits.memoryBytes) reject(tooLarge(name, memoryOf(limits)))
    else if (fetches === 0 && performance.now() - heardAt > SILENCE_MS) {
      reject(unreadable(name, `no row within ${SILENCE_MS / 60_000} minutes`))
    }
  }
  const timer = setInterval(look, LOOK_MS)
  reader.on('exit', () => clearInterval(timer))
  const heard = (): void => {
    heardAt = performance.now()
    look()
  }
  return {
    heard,
    fetching(more) {
      fetches += more
      heard()
    },
  }
}

/** Where the system does not tell, the limit of the engine of the language is left, which does not count buffers. */
function memoryBytesOf(pid: number | undefined): number {
  try {
    return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}

function memoryOf({ memoryBytes }: ImportLimits): string {
  return `to be read within ${Math.floor(memoryBytes / MIB)} MiB of memory`
}

function excessOf(over: Extract<FromReader, { kind: 'over' | 'cell' }>, limits: ImportLimits): string {
  if (over.kind === 'cell') {
    const { column, row, got } = over
    return `to have column ${column} of row ${row} of at most ${limits.cellBytes} bytes, got ${got}`
  }
  if (over.limit === 'rows') return `to have at most ${limits.rows} rows, got ${over.got}`
  return `to unpack to at most ${limits.bytes} bytes in all, got at least ${over.got}`
}

function tooLarge(name: string, excess: string): LonghaulError {
  return new LonghaulError({
    code: 'Task.Invalid',
    message: `Expected the Parquet file ${excess}. If it is the data set that you chose, set ${VARIABLE} to more than ${process.env[VARIABLE] ?? DEFAULT_GIB}: it raises the limits on rows, cells, bytes and memory alike`,
    details: { file: name },
  })
}

function unreadable(name: string, got: string, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Task.Invalid',
    message: `Expected a Parquet file, got ${got}`,
    details: { file: name },
    cause,
  })
}
