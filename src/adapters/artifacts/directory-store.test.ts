import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, constants, existsSync, openSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { testStoreContract } from '../../../test/support/artifacts/store-contract.ts'
import { createDirectoryStore, requireDirectoryStore } from './directory-store.ts'
import { sweepTempFiles } from '../../platform/temp-files.ts'

const root = await mkdtemp(join(tmpdir(), 'store-'))
after(() => rm(root, { recursive: true, force: true }))
const store = createDirectoryStore({ root })

testStoreContract({
  name: 'artifact store: directory',
  open: () => store,
  overwrite: async (key, content) => writeFile(store.path(key), content),
})

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const hasCode = (code: string) => (error: unknown) => error instanceof LonghaulError && error.code === code

test('fifty concurrent writers of one key leave no temporary file', async () => {
  await Promise.all(Array.from({ length: 50 }, (_, owner) => store.claimRecord('race/left.json', { owner })))
  assert.deepEqual(await readdir(join(root, '.tmp')), [])
})

test('a record is stored as one line of JSON that ends with its hash', async () => {
  await store.putRecord('layout/r.json', { text: 'ü "quoted"', list: [1, 0.000001] })
  const text = await readFile(store.path('layout/r.json'), 'utf8')
  assert.match(text, /^\{"text":"ü \\"quoted\\"","list":\[1,0\.000001\],"sha256":"[0-9a-f]{64}"\}\n$/)
  assert.equal(store.locate('layout/r.json'), store.path('layout/r.json'))
})

/** What a person with access to the directory, or a repair of its file system, may leave in the place of a file. */
const NO_FILES: { what: string; make: (path: string) => Promise<unknown> }[] = [
  { what: 'a directory', make: (path) => mkdir(path) },
  { what: 'a symbolic link', make: (path) => symlink('/etc/passwd', path) },
  { what: 'a pipe', make: async (path) => assert.equal(spawnSync('mkfifo', [path]).status, 0) },
  {
    what: 'a socket',
    async make(path) {
      const { promise, resolve } = Promise.withResolvers<void>()
      const server = createServer().listen(path, resolve).unref()
      after(() => server.close())
      await promise
    },
  },
]

for (const [index, { what, make }] of NO_FILES.entries()) {
  test(`${what} in the place of a file is corrupt at once, whatever reads or writes it, and other reads go on`, async (t) => {
    const odd = createDirectoryStore({ root, answerMs: 3_000 })
    const key = `odd/${index}.json`
    await odd.putRecord('odd/good.json', { good: true })
    await make(odd.path(key))
    // Ends the waits of a version that opens a pipe for reading.
    t.after(() => what === 'a pipe' && closeSync(openSync(odd.path(key), constants.O_RDWR)))
    const isNamed = (error: unknown): boolean =>
      isLonghaulError(error) &&
      error.code === 'Artifact.Corrupt' &&
      error.message.includes(`${key}, fault=it is ${what}`)
    const ref = { key, sha256: '0'.repeat(64), bytes: 1 }
    // More calls than the process has threads for files.
    const calls = Array.from({ length: 3 }, () => [
      odd.read(key),
      odd.readRecord(key),
      odd.get(ref),
      odd.put(key, bytes('x')),
      odd.claimRecord(key, { mine: true }),
    ]).flat()
    await Promise.all(calls.map((call) => assert.rejects(call, isNamed)))
    assert.deepEqual(await odd.readRecord('odd/good.json'), { good: true })
  })
}

test('a file of gigabytes in the place of a small one is corrupt, and is not read', async () => {
  const ref = await store.put('odd/small', bytes('x'))
  for (const size of [1024 ** 3, 3 * 1024 ** 3]) {
    await truncate(store.path(ref.key), size)
    const before = process.memoryUsage().arrayBuffers
    await assert.rejects(store.get(ref), hasCode('Artifact.Corrupt'))
    await assert.rejects(store.readRecord(ref.key), hasCode('Artifact.Corrupt'))
    assert.ok(process.memoryUsage().arrayBuffers - before < 512 * 1024 ** 2)
  }
  await assert.rejects(store.read(ref.key), hasCode('Artifact.Corrupt'))
})

test('an unwritable directory is unavailable, which is retryable', async () => {
  await store.put('file', bytes('not a directory'))
  await assert.rejects(store.put('file/below', bytes('x')), hasCode('Artifact.Unavailable'))
  assert.deepEqual(await readdir(join(root, '.tmp')), [])
})

test('a user without write access reads an archive, creates nothing, and gets the reason when a put fails', async (t) => {
  // Not below the runner's own temporary folder, which is closed to others.
  const archive = await mkdtemp('/tmp/longhaul-archive-')
  const closed = await mkdtemp('/tmp/longhaul-closed-')
  t.after(() => Promise.all([archive, closed].map((path) => rm(path, { recursive: true, force: true }))))
  const ref = await createDirectoryStore({ root: archive }).put('runs/a/x', bytes('content'))
  await rm(join(archive, '.tmp'), { recursive: true })
  await chmod(archive, 0o555)
  await chmod(closed, 0)
  const isRoot = process.getuid?.() === 0
  // Modes bind every user but this one.
  if (isRoot) process.seteuid?.(65_534)
  try {
    const reader = createDirectoryStore({ root: archive, checksWriting: false })
    assert.equal((await reader.get(ref)).toString(), 'content')
    assert.deepEqual([await reader.list(''), await reader.folders('runs/')], [['runs/a/x'], ['a']])
    await assert.rejects(reader.put('y', bytes('y')), { code: 'Artifact.Unavailable', message: /EACCES/ })
    assert.throws(() => createDirectoryStore({ root: archive }), hasCode('Artifact.Unavailable'))
    const unreachable = createDirectoryStore({ root: join(closed, 'archive'), checksWriting: false })
    await assert.rejects(unreachable.read('x'), hasCode('Artifact.Unavailable'))
    assert.throws(() => requireDirectoryStore(join(closed, 'archive')), hasCode('Artifact.Unavailable'))
  } finally {
    if (isRoot) process.seteuid?.(0)
    await chmod(archive, 0o755)
  }
  assert.deepEqual(await readdir(archive), ['runs'])
  await createDirectoryStore({ root: archive, checksWriting: false }).put('y', bytes('y'))
  assert.deepEqual((await readdir(archive)).sort(), ['.tmp', 'runs', 'y'])
})

test('an absent store can be opened for reading as empty or required, and the first put creates it', async (t) => {
  const parent = await mkdtemp(join(tmpdir(), 'store-'))
  t.after(() => rm(parent, { recursive: true, force: true }))
  const absent = join(parent, 'absent')
  const reader = createDirectoryStore({ root: absent, checksWriting: false })
  assert.deepEqual([await reader.read('x'), await reader.list(''), await reader.folders('runs/')], [null, [], []])
  assert.throws(() => requireDirectoryStore(absent), hasCode('Config.NotFound'))
  assert.deepEqual(await readdir(parent), [])
  await reader.put('x', bytes('x'))
  requireDirectoryStore(absent)
  const inFile = createDirectoryStore({ root: join(absent, 'x'), checksWriting: false })
  await assert.rejects(inFile.put('y', bytes('y')), hasCode('Config.Invalid'))
  assert.throws(() => requireDirectoryStore(join(absent, 'x')), hasCode('Config.NotFound'))
})

test('a root that can never be created is a configuration error that names the variable', () => {
  for (const root of [process.execPath, '/proc/longhaul']) {
    assert.throws(
      () => createDirectoryStore({ root }),
      (error: unknown) =>
        isLonghaulError(error) && error.code === 'Config.Invalid' && /LONGHAUL_ARTIFACTS/.test(error.message),
    )
  }
})

test('temporary files of a dead writer are removed, and those of a live one stay', async () => {
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
