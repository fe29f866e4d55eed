import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import { isLonghaulError } from '../contracts/errors.ts'
import { stackPaths, type StackPaths } from './paths.ts'
import { chooseStore, describeStore, keepStore, parseTemporalStore, type TemporalStore } from './temporal-store.ts'

const DEVELOPMENT: TemporalStore = { kind: 'development' }
const OWN: TemporalStore = { kind: 'postgres', url: null }
const lab = (text: string): TemporalStore => ({ kind: 'postgres', url: text })

let home: string
let paths: StackPaths
let stacks = 0

before(async () => {
  home = await mkdtemp(join(tmpdir(), 'longhaul-store-'))
})

beforeEach(async () => {
  paths = stackPaths({ name: `s${stacks++}`, home })
  await mkdir(paths.dataDir, { recursive: true })
})

after(() => rm(home, { recursive: true, force: true }))

test('--temporal accepts three values', () => {
  assert.deepEqual(parseTemporalStore('development'), DEVELOPMENT)
  assert.deepEqual(parseTemporalStore('postgres'), OWN)
  assert.deepEqual(parseTemporalStore('postgres://lab@h/runs'), lab('postgres://lab@h/runs'))
  assert.throws(() => parseTemporalStore('mysql'), /Expected --temporal to be development, postgres or postgres:/)
  assert.throws(() => parseTemporalStore('postgres://h/runs'), /it names no user/)
})

test('a new stack gets the requested store, or the development server, and keeps it', async () => {
  assert.deepEqual(await chooseStore(paths, null), DEVELOPMENT)
  assert.deepEqual(await chooseStore(paths, OWN), OWN)
  await keepStore(paths, OWN, null)
  assert.deepEqual(await chooseStore(paths, null), OWN)
  assert.deepEqual(await chooseStore(paths, OWN), OWN)
})

test('remembers an address in a file for its owner only, and accepts a new password', async () => {
  const [old, renewed] = [lab('postgres://lab:old@h/runs'), lab('postgres://lab:new@h/runs')]
  await keepStore(paths, old, '1.31.2')
  assert.equal((await stat(join(paths.dataDir, 'temporal-store.json'))).mode & 0o077, 0)
  assert.deepEqual(await chooseStore(paths, null), old)
  assert.deepEqual(await chooseStore(paths, renewed), renewed)
  assert.ok(!describeStore(paths, old).includes('old@'))
})

const refuses = (pattern: RegExp) => (error: unknown) =>
  isLonghaulError(error) && error.code === 'Config.Invalid' && pattern.test(error.message)

test("refuses PostgreSQL for an earlier stack with a development server's file, and names the file", async () => {
  await writeFile(join(paths.dataDir, 'temporal-1.31.2.db'), '')
  await assert.rejects(
    chooseStore(paths, OWN),
    refuses(
      /development server's file in .*with --temporal postgres it would start without them.*rm -r .*temporal-1\.31\.2\.db/s,
    ),
  )
})

for (const [what, kept, asked, pattern] of [
  ['its own PostgreSQL', OWN, DEVELOPMENT, /its own PostgreSQL in .*rm -r .*\/postgres /s],
  ['its own PostgreSQL', OWN, lab('postgres://lab:geheim@h/runs'), /with --temporal postgres:\/\/… it would/],
  ['a database', lab('postgres://lab:geheim@h/runs'), lab('postgres://lab:geheim@h/other'), /PostgreSQL at h:5432/],
] as const) {
  test(`a stack with ${what} refuses ${asked.kind === 'development' ? 'the development server' : asked.url} without repeating a password`, async () => {
    await keepStore(paths, kept, null)
    await assert.rejects(chooseStore(paths, asked), (error) => refuses(pattern)(error) && !/geheim/.test(String(error)))
  })
}
