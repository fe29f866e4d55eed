import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tableFromIPC } from 'apache-arrow'
import fc from 'fast-check'
import * as parquet from 'parquet-wasm'
import type { TableColumn, TableValue } from '../../contracts/exports.types.ts'
import { writeParquet } from './parquet-file.ts'

const COLUMNS: TableColumn[] = [
  { name: 'text', type: 'text' },
  { name: 'count', type: 'integer' },
  { name: 'share', type: 'number' },
  { name: 'flag', type: 'boolean' },
  { name: 'at', type: 'time' },
  { name: 'ids', type: { list: 'int32' } },
  {
    name: 'turns',
    type: { list: { struct: { said: 'text', ids: { list: 'int32' }, logprobs: { list: 'float32' } } } },
  },
]

async function write(rows: readonly TableValue[][]): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  const sink = { write: async (data: string | Uint8Array) => void chunks.push(Buffer.from(data)) }
  await writeParquet(sink, { columns: COLUMNS, rows: eachOf(rows), metadata: { 'longhaul.run': 'r' } })
  return Buffer.concat(chunks)
}

async function* eachOf<T>(rows: Iterable<T>): AsyncGenerator<T> {
  yield* rows
}

/** By Arrow's Rust code; JSON makes its vectors and structs plain. */
function read(bytes: Buffer): TableValue[][] {
  const table = tableFromIPC(parquet.readParquet(bytes).intoIPCStream())
  const plain = (value: unknown): TableValue => {
    const text = JSON.stringify(value, (_key, entry: unknown) => (typeof entry === 'bigint' ? Number(entry) : entry))
    return JSON.parse(text ?? 'null') as TableValue
  }
  return table.toArray().map((row) => COLUMNS.map(({ name }) => plain((row as Record<string, unknown>)[name])))
}

const turn = fc.record({
  said: fc.option(fc.string({ unit: 'grapheme' })),
  ids: fc.option(fc.array(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }), { maxLength: 4 })),
  logprobs: fc.array(fc.option(fc.integer({ min: -8, max: 0 })), { maxLength: 4 }),
})
const row = fc.tuple(
  fc.option(fc.string({ unit: 'grapheme' })),
  fc.option(fc.maxSafeInteger()),
  fc.option(fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)),
  fc.option(fc.boolean()),
  fc.option(fc.integer({ min: 0, max: 4e12 })),
  fc.option(fc.array(fc.integer({ min: 0, max: 2 ** 31 - 1 }), { maxLength: 4 })),
  fc.option(fc.array(turn, { maxLength: 3 })),
)

test('Arrow’s Rust code reads any nested rows with nulls as written, and equal rows give equal bytes', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(row, { minLength: 1, maxLength: 12 }), async (rows) => {
      const bytes = await write(rows)
      assert.deepEqual(read(bytes), JSON.parse(JSON.stringify(rows)))
      assert.ok(bytes.equals(await write(rows)))
    }),
    { numRuns: 150 },
  )
})

test('writes row groups while rows still arrive, by number or by size', async () => {
  const large = 'x'.repeat(1_000_000)
  for (const [text, rows] of [
    ['small', 5_000],
    [large, 40],
  ] as const) {
    let written = 0
    const before: number[] = []
    const source = async function* (): AsyncGenerator<TableValue[]> {
      for (let at = 0; at < rows; at++) {
        before.push(written)
        yield [text, at, null, null, null, null, null]
      }
    }
    const sink = { write: async (data: string | Uint8Array) => void (written += data.length) }
    await writeParquet(sink, { columns: COLUMNS, rows: source(), metadata: {} })
    assert.equal(new Set(before).size, 3, 'two groups were written before the last row')
  }
})
