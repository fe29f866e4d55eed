import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'

import { choosePort } from './ports.ts'

test('the usual port is in use: another one is chosen, and never the same for two services', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const busy = typeof address === 'object' && address !== null ? address.port : 0
  try {
    const taken = new Set<number>()
    const first = await choosePort({ preferred: [busy], taken })
    const second = await choosePort({ preferred: [first], taken })
    assert.notEqual(first, busy)
    assert.notEqual(second, first)
  } finally {
    server.close()
  }
})
