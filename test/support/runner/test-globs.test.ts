import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { REVIEWED_SKIPS } from '../../reviewed-skips.ts'
import { findTestFiles } from './run-test-files.ts'
import { APART_GLOBS, TEST_GLOBS } from './test-globs.ts'

const root = join(import.meta.dirname, '../../..')

/** Anything that runs tests when it is loaded; types alone do not. */
const DEFINES_TESTS =
  /^import (?!type\b)(?:\{[^}]*(?<!type )\b(?:test|it|describe|suite)\b[^}]*\}|\w+|\* as \w+) from ['"]node:test['"]/m

test('every file that defines tests is found by npm test, or imported by one that is', async () => {
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

test('every file that runs apart is one of the system tests, and plays no recipe on the shared stack', async () => {
  const system = new Set(await findTestFiles(root, TEST_GLOBS.system))
  const apart = await findTestFiles(root, APART_GLOBS)
  assert.deepEqual(
    apart.filter((file) => !system.has(file)),
    [],
  )
  const sharing: string[] = []
  for (const file of apart) {
    if (/^import .*attachWorld/m.test(await readFile(join(root, file), 'utf8'))) sharing.push(file)
  }
  assert.deepEqual(sharing, [])
})

test('every reviewed skip names a test that exists', async () => {
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
