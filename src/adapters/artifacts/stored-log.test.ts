import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { MAX_STORED_LOG_BYTES, keepLog, readLog, readLogOf, storedLogKey } from './stored-log.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { createDirectoryStore } from './directory-store.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-logs-'))
const store = createDirectoryStore({ root })
after(() => rmSync(root, { recursive: true }))

/** Text as a runner prints it, and what hostile code adds to it: bytes that are no text, and gzip's own mark. */
const LOG = Buffer.concat([
  Buffer.from('PASSED tests/test_one.py::test_that_is_listed\n'.repeat(2_000)),
  Buffer.from([0x1f, 0x8b, 0x08, 0xff, 0x00, 0x0d, 0x0a]),
])

test('a log is stored compressed and read with the same bytes by its name and its location', async () => {
  await keepLog(store, 'a/test_output.txt', LOG)
  assert.deepEqual(await store.list('a/'), ['a/test_output.txt.gz'])
  const stored = Buffer.from((await store.read('a/test_output.txt.gz')) ?? '')
  assert.ok(stored.length * 20 < LOG.length, `${stored.length} of ${LOG.length} bytes`)
  assert.deepEqual(gunzipSync(stored), LOG)
  for (const key of ['a/test_output.txt', storedLogKey('a/test_output.txt')]) {
    assert.deepEqual(Buffer.from((await readLog(store, key)) ?? ''), LOG)
  }
})

test('an uncompressed log of an earlier version is read, even when it begins like a gzip file', async () => {
  const plain = Buffer.concat([Buffer.from([0x1f, 0x8b]), LOG])
  await store.put('b/test_output.txt', plain)
  assert.deepEqual(Buffer.from((await readLog(store, 'b/test_output.txt')) ?? ''), plain)
})

test('an absent log is null, and an empty one is empty', async () => {
  assert.equal(await readLog(store, 'c/absent.txt'), null)
  assert.equal(await readLog(store, 'c/absent.log.gz'), null)
  await keepLog(store, 'c/empty.txt', new Uint8Array())
  assert.equal((await readLog(store, 'c/empty.txt'))?.byteLength, 0)
})

test('a repeated grading keeps its own log beside the first, and a verdict finds the log that it rests on', async () => {
  const logs = ['first', 'second', 'second', 'third'].map((text) => Buffer.from(text))
  for (const log of logs) await keepLog(store, 'd/log.txt', log)
  assert.equal((await store.list('d/')).length, 3)
  const read = async (sha256: string | undefined) =>
    Buffer.from((await readLogOf(store, 'd/log.txt', sha256)) ?? '').toString()
  assert.equal(Buffer.from((await readLog(store, 'd/log.txt')) ?? '').toString(), 'first')
  for (const log of logs) assert.equal(await read(sha256Hex(log)), log.toString())
  // Verdicts of earlier versions: without a hash, and with that of a log that was not kept.
  assert.deepEqual([await read(undefined), await read(sha256Hex('lost'))], ['first', 'first'])
  assert.equal(await readLogOf(store, 'd/absent.txt', sha256Hex('first')), null)
})

test('the longest log is read back, and a truncated file or one that unpacks to more is refused', async () => {
  await keepLog(store, 'e/longest.txt', Buffer.alloc(MAX_STORED_LOG_BYTES, 'x'))
  assert.equal((await readLog(store, 'e/longest.txt'))?.byteLength, MAX_STORED_LOG_BYTES)
  await store.put('e/bomb.txt.gz', gzipSync(Buffer.alloc(MAX_STORED_LOG_BYTES + 1)))
  // Members behind each other unpack to one text: here 3.2 GB out of 3 MB.
  const member = gzipSync(Buffer.alloc(2 ** 24))
  await store.put('e/members.txt.gz', Buffer.concat(Array.from({ length: 200 }, () => member)))
  const before = process.memoryUsage().rss
  for (const name of ['e/bomb.txt', 'e/members.txt.gz']) {
    await assert.rejects(readLog(store, name), {
      code: 'Artifact.Corrupt',
      message: /e\/\w+\.txt\.gz .*: it holds more/,
    })
  }
  assert.ok(process.memoryUsage().rss - before < 4 * MAX_STORED_LOG_BYTES)
  await store.put('e/torn.txt.gz', gzipSync(LOG).subarray(0, 100))
  await assert.rejects(readLog(store, 'e/torn.txt'), {
    code: 'Artifact.Corrupt',
    message: /: it is not gzip, or truncated/,
  })
})
