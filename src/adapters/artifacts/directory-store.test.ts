import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { LonghaulError } from '../../contracts/errors.ts'
import { createDirectoryStore } from './directory-store.ts'
import { sweepTempFiles } from '../../platform/temp-files.ts'

const root = await mkdtemp(join(tmpdir(), 'store-'))
after(() => rm(root, { recursive: true, force: true }))
const store = createDirectoryStore({ root })
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const hasCode = (code: string) => (error: unknown) => error instanceof LonghaulError && error.code === code

test('a key that is put twice with equal bytes is acknowledged twice, with other bytes it conflicts', async () => {
  const first = await store.put('runs/a/x.bin', bytes('one'))
  assert.deepEqual(await store.put('runs/a/x.bin', bytes('one')), first)
  await assert.rejects(store.put('runs/a/x.bin', bytes('two')), hasCode('Artifact.Conflict'))
  assert.equal(Buffer.from(await store.get(first)).toString(), 'one')
})

test('fifty writers race for one key with different records: one wins, all see its record', async () => {
  const claims = await Promise.all(
    Array.from({ length: 50 }, (_, index) => store.claimRecord('race/claim.json', { owner: index })),
  )
  assert.equal(claims.filter((claim) => claim.won).length, 1)
  assert.equal(new Set(claims.map((claim) => claim.record.owner)).size, 1)
  assert.deepEqual(await readdir(join(root, '.tmp')), [])
})

test('a record carries its own hash as the last field, and reads back without it', async () => {
  await store.putRecord('runs/a/r.json', { text: 'ü "quoted"', list: [1, 0.000001], none: null })
  const text = await readFile(store.path('runs/a/r.json'), 'utf8')
  assert.match(text, /,"sha256":"[0-9a-f]{64}"\}\n$/)
  assert.deepEqual(await store.readRecord('runs/a/r.json'), { text: 'ü "quoted"', list: [1, 0.000001], none: null })
  await store.putRecord('runs/a/empty.json', {})
  assert.deepEqual(await store.readRecord('runs/a/empty.json'), {})
  assert.equal(await store.readRecord('runs/a/absent.json'), null)
})

test('a record with any byte changed or cut off is refused', async () => {
  await store.putRecord('torn/r.json', { value: 41, name: 'x' })
  const path = store.path('torn/r.json')
  const good = await readFile(path)
  for (let at = 0; at < good.length; at++) {
    const bad = Buffer.from(good)
    bad[at] = (bad[at] ?? 0) ^ 1
    await writeFile(path, bad)
    await assert.rejects(store.readRecord('torn/r.json'), hasCode('Artifact.Corrupt'), `byte ${at}`)
  }
  await writeFile(path, good)
  await truncate(path, good.length - 5)
  await assert.rejects(store.readRecord('torn/r.json'), hasCode('Artifact.Corrupt'))
})

test('content that differs from its reference is refused, and an absent one is missing', async () => {
  const ref = await store.put('c/x', bytes('abc'))
  await writeFile(store.path('c/x'), 'abd')
  await assert.rejects(store.get(ref), hasCode('Artifact.Corrupt'))
  await assert.rejects(store.get({ ...ref, key: 'c/y' }), hasCode('Artifact.Missing'))
  assert.equal(await store.read('c/y'), null)
})

test('keys that would leave the store are refused', async () => {
  for (const key of [
    '',
    '/etc/passwd',
    '../x',
    'a/../../x',
    'a//b',
    'a/./b',
    'a\0b',
    'a\\b',
    '.tmp/x',
    'x'.repeat(256),
  ]) {
    await assert.rejects(async () => store.put(key, bytes('x')), hasCode('Config.Invalid'), JSON.stringify(key))
  }
})

test('list gives the keys below a prefix in order, without temporary files', async () => {
  for (const key of ['l/b/2', 'l/a/1', 'l/b/10', 'lx/3']) await store.put(key, bytes(key))
  assert.deepEqual(await store.list('l/'), ['l/a/1', 'l/b/10', 'l/b/2'])
  assert.deepEqual(await store.list('l/b/1'), ['l/b/10'])
  assert.deepEqual(await store.list('nothing/here/'), [])
})

test('a directory that cannot be written is unavailable, which is retryable', async () => {
  await store.put('file', bytes('not a directory'))
  await assert.rejects(store.put('file/below', bytes('x')), hasCode('Artifact.Unavailable'))
  assert.deepEqual(await readdir(join(root, '.tmp')), [])
})

test('temporary files of a dead writer are swept, those of a live one stay', async () => {
  const temp = join(root, '.tmp')
  const host = hostname().replaceAll(/[^A-Za-z0-9-]/g, '-')
  const dead = spawnSync('true').pid
  await writeFile(join(temp, `${host}.${dead}.x`), 'half')
  await writeFile(join(temp, `${host}.${process.pid}.x`), 'being written')
  await writeFile(join(temp, 'other-host.1.x'), 'unknown writer')
  assert.equal(await sweepTempFiles(temp, Date.now()), 1)
  assert.ok(existsSync(join(temp, `${host}.${process.pid}.x`)))
  assert.equal(await sweepTempFiles(temp, Date.now() + 25 * 60 * 60 * 1000), 2)
})
