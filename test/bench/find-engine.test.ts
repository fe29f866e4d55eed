import assert from 'node:assert/strict'
import { test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { findEngine } from '../../bench/support/find-engine.ts'

test('a stopped engine leaves no address behind, so that the next call starts another one', async (t) => {
  useEnvironment(t, { DOCKER_HOST: undefined })
  const { engine, stop } = await findEngine(`find-engine-${process.pid}`)
  try {
    assert.equal(String(await engine.docker.ping()), 'OK')
  } finally {
    await stop()
  }
  assert.equal(process.env['DOCKER_HOST'], undefined)
})
