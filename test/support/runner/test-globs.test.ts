import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { REVIEWED_SKIPS } from '../../reviewed-skips.ts'
import { readKeptCosts, TRAINER_JOB } from './file-costs.ts'
import { findTestFiles } from './run-test-files.ts'
import { HOLDERS, TEST_GLOBS } from './test-globs.ts'

const root = join(import.meta.dirname, '../../..')

/** Anything that runs tests when it is loaded; types alone do not. */
const DEFINES_TESTS =
  /^import (?!type\b)(?:\{[^}]*(?<!type )\b(?:test|it|describe|suite)\b[^}]*\}|\w+|\* as \w+) from ['"]node:test['"]/m

test('npm test finds every file that defines tests, or one that imports it', async () => {
  const found = new Set(await findTestFiles(root, [...TEST_GLOBS.units, ...TEST_GLOBS.system]))
  const imported = new Set<string>()
  for (const file of found) {
    const text = await readFile(join(root, file), 'utf8')
    for (const [, path = ''] of text.matchAll(/from '(\.[^'\n]{1,200})'/g)) imported.add(join(dirname(file), path))
  }
  const lost: string[] = []
  let defining = 0
  const sources = glob('{src,test,policies,bench,scripts,bin,infra}/**/*.{ts,mts,cts,mjs,cjs,js}', { cwd: root })
  for await (const file of sources) {
    if (!DEFINES_TESTS.test(await readFile(join(root, file), 'utf8'))) continue
    defining += 1
    // Such as a contract that several adapters' files run: its tests run in each of them.
    if (!found.has(file) && !imported.has(file)) lost.push(file)
  }
  assert.deepEqual(lost, [])
  assert.ok(defining > 100, `only ${defining} files define tests: this search is broken`)
})

test('a file that attaches to the shared stack holds it, and no file holds two resources', async () => {
  const system = await findTestFiles(root, TEST_GLOBS.system)
  const holders = new Map<string, string[]>()
  for (const [held, patterns] of Object.entries(HOLDERS)) {
    for (const file of await findTestFiles(root, patterns)) holders.set(file, [...(holders.get(file) ?? []), held])
  }
  assert.deepEqual(
    [...holders].filter(([file, held]) => !system.includes(file) || held.length !== 1),
    [],
  )
  const attached: string[] = []
  for (const file of system) {
    if (/^import .*\b(?:attachWorld|attachStack)\b/m.test(await readFile(join(root, file), 'utf8'))) attached.push(file)
  }
  assert.ok(attached.length > 10, `only ${attached.length} files attach to the stack: this search is broken`)
  assert.deepEqual(
    attached.filter((file) => holders.get(file)?.[0] !== 'stack'),
    [],
  )
})

/** `audit-honest` waited for 28 minutes of its 30 beside two others, when it was a new file. */
test('a file that audits outside of containers holds the lock of such audits while it runs', async () => {
  const auditing: string[] = []
  for (const file of await findTestFiles(root, TEST_GLOBS.system)) {
    if (/^import .*\brunAudit\b/m.test(await readFile(join(root, file), 'utf8'))) auditing.push(file)
  }
  assert.deepEqual(auditing, await findTestFiles(root, HOLDERS.audits))
  assert.ok(auditing.length > 1, 'this search is broken')
})

/** A name of a file that has moved would lose its place in the order in silence. */
test('every stored cost is for an existing file or the trainer', async () => {
  const files = new Set(await findTestFiles(root, [...TEST_GLOBS.units, ...TEST_GLOBS.system]))
  const names = Object.keys(await readKeptCosts(root))
  assert.ok(names.includes(TRAINER_JOB))
  assert.deepEqual(
    names.filter((name) => name !== TRAINER_JOB && !files.has(name)),
    [],
  )
})

test('every reviewed skip names an existing test', async () => {
  const stale: string[] = []
  for (const { file, tests } of REVIEWED_SKIPS) {
    const text = await readFile(join(root, file), 'utf8').catch(() => null)
    if (text === null) {
      stale.push(file)
      continue
    }
    // `/^/` stands for a whole file.
    const wanted = tests instanceof RegExp ? [tests.source.replace(/^\^|\$$/g, '')] : tests
    // A title that is made from a table begins with the entry of it.
    const isThere = (title: string): boolean => text.includes(title) || text.includes(title.replace(/^[^:]*: /, ': '))
    stale.push(...wanted.filter((title) => !isThere(title)).map((title) => `${file}: ${title}`))
  }
  assert.deepEqual(stale, [])
})
