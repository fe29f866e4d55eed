/** An engine that is away while a host prepares an image is waited for as an engine, not reported as a bug of ours. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import Docker from 'dockerode'
import { type Engine, boundEngineRequests } from '../../adapters/docker/engine/engine.ts'
import type { LonghaulError } from '../../contracts/errors.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { createImageProvider } from './task-images.ts'

const TASK = { image: 'longhaul-test/absent:1', synthetic: null } as Task
let folder = ''
let socket = ''

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
  socket = join(folder, 'engine.sock')
})
afterEach(() => rmSync(folder, { recursive: true }))

/** Prepares an image by an engine that answers as `answer` does; null: no engine listens. */
async function prepare(answer: RequestListener | null, { cacheDir = folder, limitMs = 60_000 } = {}): Promise<void> {
  const server = createServer(answer ?? undefined)
  if (answer !== null) await new Promise<void>((resolve) => server.listen(socket, resolve))
  const docker = new Docker({ socketPath: socket })
  boundEngineRequests(docker, () => limitMs)
  const provide = createImageProvider({ engine: { docker } as Engine, cacheDir, log: () => undefined })
  try {
    await provide(TASK, new AbortController().signal)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

const json =
  (body: unknown, status = 200): RequestListener =>
  (_, response) => {
    response.writeHead(status, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify(body))
  }

const isAway = (error: LonghaulError): boolean => {
  assert.equal(error.code, 'Sandbox.EngineUnavailable')
  assert.match(error.message, /preparing an image failed/)
  return true
}

test('no engine is listening', () => assert.rejects(prepare(null), isAway))

test('the engine breaks the connection', () =>
  assert.rejects(
    prepare((request) => request.socket.destroy()),
    isAway,
  ))

test('the engine fails by itself', () => assert.rejects(prepare(json({ message: 'server is stopping' }, 500)), isAway))

test('the engine is silent', () =>
  assert.rejects(
    prepare(() => undefined, { limitMs: 200 }),
    isAway,
  ))

test('a failure of this machine’s own files keeps its code', async () => {
  const file = join(folder, 'a-file')
  writeFileSync(file, '')
  await assert.rejects(prepare(json({ ID: 'engine' }), { cacheDir: file }), { code: 'ENOTDIR' })
})
