import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { changeEnvironment, useEnvironment, withoutStack } from './environment.ts'

test('restores variables that were set, removed and changed again to their first value', () => {
  const outer = changeEnvironment({ TEST_OLD: 'old', TEST_GONE: undefined })
  const restore = changeEnvironment({ TEST_OLD: undefined, TEST_NEW: '' })
  assert.deepEqual([process.env['TEST_OLD'], process.env['TEST_NEW']], [undefined, ''])
  process.env['TEST_GONE'] = 'set later'
  restore()
  const { TEST_OLD, TEST_NEW, TEST_GONE } = process.env
  assert.deepEqual([TEST_OLD, TEST_NEW, TEST_GONE], ['old', undefined, undefined])
  outer()
  assert.equal(process.env['TEST_OLD'], undefined)
})

test('registers the restoring hook before anything can fail', () => {
  const hooks: (() => void)[] = []
  useEnvironment({ after: (hook) => void hooks.push(hook) }, { TEST_OLD: 'mine' })
  assert.equal(process.env['TEST_OLD'], 'mine')
  for (const hook of hooks) hook()
  assert.equal(process.env['TEST_OLD'], undefined)
})

test('without a stack, removes the variables that name one and keeps the cache and the runner’s own', (t) => {
  useEnvironment(t, { LONGHAUL_HOME: '/h', LONGHAUL_CACHE: '/c', LONGHAUL_TEST_SHARED: '/s', TEMPORAL_PROFILE: 'p' })
  const removed = Object.keys(withoutStack())
  assert.ok(removed.includes('LONGHAUL_HOME') && removed.includes('TEMPORAL_PROFILE'))
  assert.ok(!removed.includes('LONGHAUL_CACHE') && !removed.includes('LONGHAUL_TEST_SHARED'))
})

/** Of these alone what they set stays: the runner makes the environment of the test files that it starts. */
const RUNNER = ['test/run.ts', 'test/support/runner/trainer-test-packages.ts', 'test/support/environment.ts']
const SETS = /process\.env(?:\[[^\]\n]+\])? = |delete process\.env|Object\.assign\(process\.env/

test('tests set variables only through this file, so that they are restored after a failure', () => {
  const root = join(import.meta.dirname, '../..')
  const files = ['src', 'test'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => `${folder}/${name}`),
  )
  const setting = files.filter(
    (file) =>
      (file.endsWith('.test.ts') || /^test\/.*\.ts$/.test(file)) &&
      !RUNNER.includes(file) &&
      SETS.test(readFileSync(join(root, file), 'utf8')),
  )
  assert.ok(setting.length > 5, `only ${setting.length} files set variables: what is looked for is spelled otherwise`)
  const byHand = setting.filter((file) => {
    const text = readFileSync(join(root, file), 'utf8')
    return !/import \{[^}]*\b(?:use|change)Environment\b/.test(text) || /process\.env = /.test(text)
  })
  assert.deepEqual(byHand, [])
})
