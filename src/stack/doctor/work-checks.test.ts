import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { changeEnvironment, withoutStack } from '../../../test/support/environment.ts'
import { stackPaths } from '../paths.ts'
import type { Finding } from './finding.ts'
import { WORK_CHECKS } from './work-checks.ts'

async function emptyMachine(t: TestContext): Promise<string> {
  const home = await mkdtemp(join(tmpdir(), 'longhaul-checks-'))
  t.after(() => rm(home, { recursive: true, force: true }))
  return home
}

async function check(name: string, env: NodeJS.ProcessEnv): Promise<Finding> {
  const { run } = WORK_CHECKS.find((one) => one.name === name) ?? assert.fail()
  return run(stackPaths({ env }))
}

test('measures the disk of an absent cache without creating it', async (t) => {
  const home = await emptyMachine(t)
  const cache = join(home, 'cache/longhaul')
  const before = await check('free disk', { LONGHAUL_CACHE: cache })
  assert.deepEqual(await readdir(home), [])
  await mkdir(cache, { recursive: true })
  const after = await check('free disk', { LONGHAUL_CACHE: cache })
  for (const { value } of [before, after]) assert.match(value, /^\d+ GiB at \S+\/cache\/longhaul/)
  assert.equal(before.level, after.level)
})

/** The path is a valid one, and every name below it is too long for the kernel, so the probe fails before it makes a folder. */
test('an absent store that accepts no records fails the check and leaves no directory behind', async (t) => {
  const home = await emptyMachine(t)
  let artifacts = home
  while (artifacts.length < 4_090) artifacts = join(artifacts, 'x'.repeat(Math.min(200, 4_092 - artifacts.length)))
  const { level, value } = await check('store', { LONGHAUL_ARTIFACTS: artifacts })
  assert.equal(level, 'fail', value)
  assert.deepEqual(await readdir(home), [])
})

test('a key that no header can carry, and an address with a password, fail the check and are not shown', async (t) => {
  for (const [env, says] of [
    [
      { LONGHAUL_POLICY_URL: 'http://127.0.0.1:1', LONGHAUL_POLICY_API_KEY: 'k-secret\nmore' },
      /LONGHAUL_POLICY_API_KEY to be/,
    ],
    [{ LONGHAUL_POLICY_URL: 'http://u:k-secret@127.0.0.1:1' }, /LONGHAUL_POLICY_URL to be an address without user/],
  ] as const) {
    const restore = changeEnvironment({ ...withoutStack(), LONGHAUL_HOME: await emptyMachine(t), ...env })
    const { level, value } = await check('policy server', {})
    restore()
    assert.equal(level, 'fail')
    assert.match(value, says)
    assert.doesNotMatch(value, /k-secret/)
  }
})
