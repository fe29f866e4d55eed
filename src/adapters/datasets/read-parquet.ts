/** A process that reads one Parquet file for `parquet-rows.ts`, which fetches its bytes and ends it where it takes too much. */
import { type AsyncBuffer, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import type { FromReader, ToReader } from './parquet-rows.ts'
import { decodeText, plainValue } from './plain-value.ts'

/** Of one message: its copy is held here until the other process has taken it. */
const BATCH_BYTES = 4 * 1024 * 1024
/** What a number, an empty text or a list takes at least. */
const VALUE_BYTES = 8

type ReadRequest = Extract<ToReader, { kind: 'read' }>

const waiting = new Map<number, (bytes: ArrayBuffer) => void>()

function send(message: FromReader): Promise<void> {
  return new Promise((resolve) => process.send?.(message, () => resolve()))
}

function fileOf({ byteLength }: ReadRequest): AsyncBuffer {
  let asked = 0
  return {
    byteLength,
    slice: (start, end = byteLength) =>
      new Promise((resolve) => {
        const id = (asked += 1)
        waiting.set(id, resolve)
        void send({ kind: 'slice', id, start, end })
      }),
  }
}

/** @returns why the file is refused, or null */
async function read(request: ReadRequest): Promise<FromReader> {
  const { limits, used } = request
  const file = fileOf(request)
  const metadata = await parquetMetadataAsync(file)
  const counts = metadata.row_groups.map(({ num_rows }) => Number(num_rows))
  const wrong = counts.find((count) => !Number.isSafeInteger(count) || count < 0)
  if (wrong !== undefined) return { kind: 'failed', message: `a row group of ${wrong} rows` }
  const all = counts.reduce((sum, count) => sum + count, used.rows)
  if (all > limits.rows) return { kind: 'over', limit: 'rows', got: all }
  // The reader's own decoder drops byte order marks and replaces bytes that are no UTF-8.
  const parsers = { stringFromBytes: (bytes: Uint8Array | undefined) => bytes && decodeText(bytes) }
  let rowStart = 0
  let left = limits.bytes - used.bytes
  for (const count of counts) {
    const range = { rowStart, rowEnd: rowStart + count }
    const rows = await parquetReadObjects({ file, metadata, ...range, compressors, parsers, utf8: false })
    const sizes: number[] = []
    // All of them are measured before one is sent, since what they share here is copied for the other process.
    for (const [at, row] of rows.entries()) {
      let bytes = 0
      for (const [column, cell] of Object.entries(row)) {
        const size = sizeOf(cell)
        if (size > limits.cellBytes) return { kind: 'cell', got: size, row: rowStart + at + 1, column }
        bytes += size
      }
      left -= bytes
      if (left < 0) return { kind: 'over', limit: 'bytes', got: limits.bytes - left }
      sizes.push(bytes)
    }
    await sendRows(rows, sizes)
    rowStart = range.rowEnd
  }
  return { kind: 'end' }
}

async function sendRows(rows: readonly Record<string, unknown>[], sizes: readonly number[]): Promise<void> {
  let batch: unknown[] = []
  let bytes = 0
  for (const [at, row] of rows.entries()) {
    batch.push(plainValue(row))
    bytes += sizes[at] ?? 0
    if (bytes < BATCH_BYTES && at + 1 < rows.length) continue
    await send({ kind: 'rows', rows: batch, bytes })
    batch = []
    bytes = 0
  }
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string') return VALUE_BYTES + Buffer.byteLength(value)
  if (typeof value !== 'object' || value === null) return VALUE_BYTES
  // They become lists of numbers.
  if (ArrayBuffer.isView(value)) return VALUE_BYTES * (1 + value.byteLength)
  return Object.values(value).reduce<number>((sum, entry) => sum + sizeOf(entry), VALUE_BYTES)
}

process.on('message', (message: ToReader) => {
  if (message.kind === 'part') {
    const { id, bytes } = message
    const resolve = waiting.get(id)
    waiting.delete(id)
    resolve?.(new Uint8Array(bytes).buffer)
    return
  }
  void read(message)
    .catch(
      (error: unknown): FromReader => ({
        kind: 'failed',
        message: error instanceof Error ? error.message : String(error),
      }),
    )
    .then((answer) => send(answer))
})
// The process that asked is gone.
process.on('disconnect', () => process.exit())
