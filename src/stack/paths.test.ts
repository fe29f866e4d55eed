import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { isLonghaulError } from '../contracts/errors.ts'
import { withAbsolutePaths } from './environment.ts'
import { makeStackDirectories, stackPaths } from './paths.ts'
import { engineFiles } from './setup/private-engine.ts'

test('places cache and data by the XDG rules without variables', () => {
  const paths = stackPaths({ env: { HOME: '/home/ada' } })
  assert.equal(paths.name, 'default')
  assert.equal(paths.cacheDir, '/home/ada/.cache/longhaul')
  assert.equal(paths.dataDir, '/home/ada/.local/share/longhaul/stacks/default')
})

test('two stacks of one user have their own data and share one cache and engine', () => {
  const env = { HOME: '/home/ada' }
  const [a, b] = [stackPaths({ name: 'a', env }), stackPaths({ name: 'b', env })]
  assert.notEqual(a.dataDir, b.dataDir)
  assert.equal(a.cacheDir, b.cacheDir)
  assert.equal(a.runDir, b.runDir)
})

test('the engine socket fits into a socket address under a very long home', () => {
  const env = { HOME: `/home/${'deep/'.repeat(60)}` }
  assert.ok(engineFiles(stackPaths({ env })).socket.length <= 100)
})

test('refuses a name that would leave the folder as a configuration error', () => {
  assert.throws(
    () => stackPaths({ name: '../other', env: { HOME: '/home/ada' } }),
    (error) => isLonghaulError(error) && error.code === 'Config.Invalid',
  )
})

test('keeps the address of a bucket and makes a directory absolute', () => {
  const at = (artifacts: string) =>
    stackPaths({ env: { HOME: '/home/ada', LONGHAUL_ARTIFACTS: artifacts } }).artifactsDir
  assert.equal(at('s3://lab/one'), 's3://lab/one')
  assert.equal(at('/data/../data'), '/data')
  assert.throws(() => at('gs://lab'), { code: 'Config.Invalid' })
})

test('a home or cache that cannot be created gives one error that names the variable', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'longhaul-paths-'))
  try {
    for (const [variable, env] of [
      ['LONGHAUL_HOME', { LONGHAUL_HOME: '/proc/longhaul', LONGHAUL_CACHE: folder }],
      ['LONGHAUL_CACHE', { LONGHAUL_HOME: folder, LONGHAUL_CACHE: '/proc/longhaul' }],
    ] as const) {
      await assert.rejects(makeStackDirectories(stackPaths({ env })), (error) => {
        assert.ok(isLonghaulError(error) && error.code === 'Config.Invalid')
        assert.match(error.message, new RegExp(`/proc/longhaul.*ENOENT.*set ${variable} to another directory`))
        return true
      })
    }
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('paths are relative to the directory of the command, also for processes of the stack', () => {
  const env = {
    LONGHAUL_RECIPES: './recipes:/etc/recipes',
    LONGHAUL_WANDB_PYTHON: 'venv/bin/python',
    TEMPORAL_CONFIG_FILE: 'temporal.toml',
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: '/etc/ca.pem',
    LONGHAUL_STACK: 'mine',
  }
  assert.deepEqual(withAbsolutePaths(env), {
    ...env,
    LONGHAUL_RECIPES: `${process.cwd()}/recipes:/etc/recipes`,
    LONGHAUL_WANDB_PYTHON: `${process.cwd()}/venv/bin/python`,
    TEMPORAL_CONFIG_FILE: `${process.cwd()}/temporal.toml`,
  })
  const onPath = { LONGHAUL_RECIPES: '', LONGHAUL_WANDB_PYTHON: 'python3' }
  assert.deepEqual(withAbsolutePaths(onPath), onPath)
})
