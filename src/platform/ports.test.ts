import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import { choosePort, openPortReservations } from './ports.ts'

test('chooses another port when the usual one is in use, and never the same for two services', async () => {
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

test('two stacks that choose at once get different ports, and a returned port is chosen again', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ports-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const usual = await choosePort({ preferred: [], taken: new Set() })
  const [one, other] = [openPortReservations(folder), openPortReservations(folder)]
  const choose = (reservations: typeof one): Promise<number> =>
    choosePort({ preferred: [usual], taken: new Set(), reservations })

  const chosen = await Promise.all([choose(one), choose(other)])
  assert.equal(new Set(chosen).size, 2, String(chosen))
  assert.ok(chosen.includes(usual), String(chosen))
  await Promise.all([one.release(), other.release()])
  assert.equal(await choose(other), usual)
  await other.release()
})

test('chooses a port again whose process has died', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'ports-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const port = await choosePort({ preferred: [], taken: new Set() })
  await mkdir(join(folder, String(port)), { recursive: true })
  await writeFile(join(folder, String(port), 'holder'), '999999999 1')
  const reservations = openPortReservations(folder)
  assert.equal(await choosePort({ preferred: [port], taken: new Set(), reservations }), port)
  await reservations.release()
})
