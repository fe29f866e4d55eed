import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { findEngine } from '../../bench/support/find-engine.ts'

test('a stopped engine leaves neither directory nor address behind, so that the next call starts another one', async (t) => {
  useEnvironment(t, { DOCKER_HOST: undefined })
  const name = `find-engine-${process.pid}`
  const { engine, stop } = await findEngine(name)
  try {
    assert.equal(String(await engine.docker.ping()), 'OK')
  } finally {
    await stop()
  }
  assert.equal(existsSync(stackPaths({ name }).dataDir), false)
  assert.equal(process.env['DOCKER_HOST'], undefined)
})
