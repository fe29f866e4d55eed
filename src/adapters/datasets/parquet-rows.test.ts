/**
 * The story: a Parquet file of some kilobytes says one text once and has a million rows of it, or a run of values that never ends. A
 * worker that imports it runs out of memory, with all that it was doing.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { writeParquet } from '../../../test/support/datasets/write-parquet.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { readImportLimits } from './parquet-rows.ts'
import { readSource } from './read-source.ts'

const folder = await mkdtemp(join(tmpdir(), 'longhaul-parquet-'))
after(() => rm(folder, { recursive: true }))

const SMALL = { rows: 1000, cellBytes: 64 * 1024, bytes: 1024 * 1024, memoryBytes: 1024 ** 3 }

async function saved(name: string, rows: Record<string, unknown>[], groupSize = 1000): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, writeParquet({ schema: { text: 'text', list: ['text'] }, rows, groupSize }))
  return path
}

async function refusalOf(path: string, limits = SMALL): Promise<string> {
  const error = await readSource({ kind: 'file', path }, { hubUrl: null, limits }).then(
    ({ rows }) => assert.fail(`${rows.length} rows were read`),
    (reason: unknown) => reason,
  )
  assert.ok(isLonghaulError(error), String(error))
  assert.equal(error.code, 'Task.Invalid')
  assert.match(error.message, /LONGHAUL_IMPORT_MAX_GIB/)
  return error.message
}

const repeated = (count: number, text: string) => Array.from({ length: count }, () => ({ text, list: [] }))

test('as many rows as the limit are read, and one more is refused before any is', async () => {
  const read = await readSource(
    { kind: 'file', path: await saved('fits.parquet', repeated(1000, 'x'), 300) },
    { hubUrl: null, limits: SMALL },
  )
  assert.deepEqual(
    [read.rows.length, read.rows[999]?.label, read.rows[999]?.row],
    [1000, 'fits.parquet row 1000', { text: 'x', list: [] }],
  )
  assert.match(await refusalOf(await saved('rows.parquet', repeated(1001, 'x'), 300)), /at most 1000 rows, got 1001/)
})

test('a text, and a list, that is longer than a cell may be is refused with its row and its column', async () => {
  const rows = repeated(3, 'x')
  const long = await saved('text.parquet', [...rows, { text: 'y'.repeat(65 * 1024), list: [] }])
  assert.match(await refusalOf(long), /column text of row 4 of at most 65536 bytes/)
  const list = Array.from({ length: 100 }, () => 'z'.repeat(1000))
  assert.match(await refusalOf(await saved('list.parquet', [{ text: '', list }])), /column list of row 1 of at most/)
})

test('a small file whose rows share one text is refused by what they hold together', async () => {
  const path = await saved('bomb.parquet', repeated(900, 'x'.repeat(60 * 1024)), 100)
  assert.match(await refusalOf(path), /at most 1048576 bytes in all/)
})

test('a file that is longer than its rows may be is not fetched to find that out', async () => {
  const rows = Array.from({ length: 100 }, () => ({ text: randomBytes(20_000).toString('hex') }))
  const path = join(folder, 'long.parquet')
  await writeFile(path, writeParquet({ schema: { text: 'text' }, rows, compression: 'UNCOMPRESSED' }))
  let fetched = 0
  const onProgress = ({ bytes }: { bytes: number }): void => void (fetched = bytes)
  const reading = readSource({ kind: 'file', path }, { hubUrl: null, limits: SMALL, onProgress })
  await assert.rejects(reading, /at most 1048576 bytes in all, got at least 4\d{6}\./)
  assert.ok(fetched < SMALL.bytes, `${fetched} bytes were fetched`)
})

test('a file that takes more memory than its rows may have ends its own reader, and this process goes on', async () => {
  const path = await saved('memory.parquet', repeated(10, 'x'))
  assert.match(await refusalOf(path, { ...SMALL, memoryBytes: 1024 ** 2 }), /within 1 MiB of memory/)
})

test('some hundred bytes with a run of a billion values: their reader ends, and this process stays small', async () => {
  const rows = repeated(1000, 'x').map(({ text }) => ({ text }))
  const bytes = Buffer.from(writeParquet({ schema: { text: 'text' }, rows, compression: 'UNCOMPRESSED' }))
  // The levels of the first page: four bytes in length, one run of 1000 ones. The file says so of 2^30 − 1.
  const levels = bytes.indexOf(Buffer.from('03000000d00f01', 'hex'))
  assert.ok(levels > 0, bytes.toString('hex'))
  Buffer.from('feffffff07', 'hex').copy(bytes, levels + 4)
  const path = join(folder, 'run.parquet')
  await writeFile(path, bytes)
  const before = process.memoryUsage().rss
  assert.match(await refusalOf(path, { ...SMALL, memoryBytes: 256 * 1024 ** 2 }), /within 256 MiB of memory/)
  assert.ok(process.memoryUsage().rss - before < 128 * 1024 ** 2)
})

test('a row group that claims a negative number of rows is no empty one', async () => {
  const rows = repeated(1000, 'x').map(({ text }) => ({ text }))
  const bytes = Buffer.from(writeParquet({ schema: { text: 'text' }, rows }))
  // 1000 and −1000 as Thrift writes them; the counts are in the footer.
  const footer = bytes.length - bytes.readUInt32LE(bytes.length - 8)
  for (let at = footer; (at = bytes.indexOf(Buffer.from('d00f', 'hex'), at)) > 0; at += 2) bytes[at] = 0xcf
  const path = join(folder, 'negative.parquet')
  await writeFile(path, bytes)
  await assert.rejects(readSource({ kind: 'file', path }, { hubUrl: null }), /a row group of -1000 rows/)
})

test('one variable raises all limits alike, and must be a number above 0', () => {
  const read = (value?: string) => readImportLimits(value === undefined ? {} : { LONGHAUL_IMPORT_MAX_GIB: value })
  assert.deepEqual(read(), read('2'))
  assert.deepEqual(read('4'), {
    rows: 2_000_000,
    cellBytes: 128 * 1024 ** 2,
    bytes: 4 * 1024 ** 3,
    memoryBytes: 5 * 1024 ** 3,
  })
  for (const wrong of ['', '0', '-1', 'much', 'Infinity']) {
    assert.throws(() => read(wrong), { code: 'Config.Invalid', message: /LONGHAUL_IMPORT_MAX_GIB/ }, wrong)
  }
})

test('files of one split share the limits, and the refusal counts what came before', async () => {
  const revision = 'ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b'
  const half = writeParquet({ schema: { text: 'text' }, rows: repeated(600, 'x') })
  const files = { 'test-00000-of-00002.parquet': half, 'test-00001-of-00002.parquet': half }
  await using hub = await startHubServer({ dataset: 'a/b', revision, files })
  const source = { kind: 'hub' as const, dataset: 'a/b', revision, split: 'test' }
  await assert.rejects(
    readSource(source, { hubUrl: hub.url, limits: SMALL }),
    /at most 1000 rows, got 1200.*test-00001/s,
  )
  const { rows } = await readSource(source, { hubUrl: hub.url, limits: { ...SMALL, rows: 1200 } })
  assert.deepEqual([rows.length, rows[600]?.label], [1200, 'test-00001-of-00002.parquet row 1'])
})
