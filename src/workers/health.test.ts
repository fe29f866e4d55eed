import assert from 'node:assert/strict'
import { test } from 'node:test'

import { freePort } from '../../test/support/loopback.ts'
import { openHealth } from './health.ts'

async function ask(port: number, path: string): Promise<{ status: number; body: unknown }> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`)
  return { status: response.status, body: await response.json() }
}

test('listens on no port without the variable', async () => {
  assert.equal(await openHealth({}), null)
  assert.equal(await openHealth({ LONGHAUL_HEALTH_ADDRESS: '' }), null)
})

test('a process is alive before it has workers, ready while all of them poll, and not ready while one drains', async (t) => {
  const port = await freePort()
  const health = await openHealth({ LONGHAUL_HEALTH_ADDRESS: `127.0.0.1:${port}` })
  assert.ok(health)
  t.after(() => health.close())
  assert.deepEqual(await ask(port, '/live'), { status: 200, body: { workers: [] } })
  assert.equal((await ask(port, '/ready')).status, 503)
  const states = ['RUNNING', 'INITIALIZED']
  health.watch(states.map((_, index) => ({ getState: () => states[index] ?? '' })))
  assert.deepEqual(await ask(port, '/ready'), { status: 503, body: { workers: ['RUNNING', 'INITIALIZED'] } })
  states[1] = 'RUNNING'
  assert.equal((await ask(port, '/ready')).status, 200)
  states[0] = 'DRAINING'
  assert.equal((await ask(port, '/ready')).status, 503)
  assert.equal((await ask(port, '/live')).status, 200)
  assert.equal((await ask(port, '/metrics')).status, 404)
})

test('an invalid address and one in use are one error each', async (t) => {
  for (const address of ['9470', 'localhost:9470', '0.0.0.0:', '0.0.0.0:70000', '1.2.3:80', '::1:9470x']) {
    await assert.rejects(openHealth({ LONGHAUL_HEALTH_ADDRESS: address }), {
      code: 'Config.Invalid',
      message: /Expected LONGHAUL_HEALTH_ADDRESS to be IP:PORT, got "/,
    })
  }
  const port = await freePort()
  const first = await openHealth({ LONGHAUL_HEALTH_ADDRESS: `127.0.0.1:${port}` })
  t.after(() => first?.close())
  await assert.rejects(openHealth({ LONGHAUL_HEALTH_ADDRESS: `127.0.0.1:${port}` }), {
    code: 'Config.Invalid',
    message: /cannot be used: .*EADDRINUSE/,
  })
})
