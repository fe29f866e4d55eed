import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Docker from 'dockerode'
import type { Engine } from '../engine/engine.ts'
import { removeContainer } from './create-container.ts'

/** An engine that answers removals with these statuses, one after the other. */
async function removing(statuses: number[], play: (engine: Engine) => Promise<void>): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'engine-'))
  const socketPath = join(folder, 's')
  let asked = 0
  const server = createServer(({ method }, response) => {
    const status = method === 'DELETE' ? (statuses[asked++] ?? 500) : 404
    response.writeHead(status, { 'content-type': 'application/json' })
    response.end(status === 204 ? undefined : JSON.stringify({ message: 'directory not empty' }))
  })
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a removal asks nothing else of it
    await play({ docker: new Docker({ socketPath }) } as unknown as Engine)
  } finally {
    server.close()
    await rm(folder, { recursive: true })
  }
  return asked
}

test('repeats a removal that the engine fails', async () => {
  assert.equal(await removing([500, 500, 204], (engine) => removeContainer({ engine, name: 'a' })), 3)
  assert.equal(await removing([500, 404], (engine) => removeContainer({ engine, name: 'a' })), 2)
})

test('fails when a removal always fails, or fails for another reason', async () => {
  const fails = (engine: Engine) => assert.rejects(removeContainer({ engine, name: 'a' }), /directory not empty/)
  assert.equal(await removing([], fails), 4)
  assert.equal(await removing([403], fails), 1)
})
