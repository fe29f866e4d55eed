import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import Docker from 'dockerode'
import { boundEngineRequests, limitOfRequest } from './engine.ts'

test('every request has a deadline except those that last as long as a container, stream or listener', () => {
  const limit = (path: string, hijack = false) => limitOfRequest({ path, hijack })
  assert.equal(limit('/containers/abc/wait?'), null)
  assert.equal(limit('/exec/abc/start', true), null)
  assert.equal(limit('/events?filters=a'), null)
  assert.equal(limit('/_ping'), 8_000)
  for (const path of [
    '/containers/create?name=a',
    '/containers/abc/start',
    '/containers/abc/json?',
    '/images/a/json',
  ]) {
    assert.equal(limit(path), 60_000, path)
  }
  assert.equal(limit('/containers/abc/archive?path=/'), 300_000)
  assert.equal(limit('/images/create?fromImage=a'), 1_800_000)
  assert.equal(limitOfRequest({ path: '/containers/abc?force=true', method: 'DELETE' }), 300_000)
})

test('a request to an engine that never answers fails at its deadline and names the request', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'silent-engine-'))
  const socketPath = join(folder, 'docker.sock')
  const server = createServer((socket) => void socket.on('error', () => socket.destroy()))
  await new Promise<void>((resolve) => server.listen(socketPath, resolve))
  try {
    const docker = new Docker({ socketPath })
    boundEngineRequests(docker, () => 50)
    await assert.rejects(docker.getContainer('abc').inspect(), /no answer to \/containers\/abc\/json\S* within 0\.05 s/)
  } finally {
    server.close()
    await rm(folder, { recursive: true, force: true })
  }
})
