import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'

import type { LonghaulError } from '../../../contracts/errors.ts'
import { connectEngine } from './engine.ts'

/** What engines answer to `/version`, cut to what is read. */
const REFUSED = [
  {
    name: 'Podman 4.3.1 behind its Docker-compatible socket',
    version: { Version: '4.3.1', ApiVersion: '1.41', Components: [{ Name: 'Podman Engine' }, { Name: 'Conmon' }] },
    says: /Expected a Docker engine: Podman does not report .*docs\/sandboxes\.md.*podman=4\.3\.1/,
  },
  {
    name: 'Docker 20.10.9, whose system call profile breaks current C libraries',
    version: { Version: '20.10.9', ApiVersion: '1.41', Components: [{ Name: 'Engine' }] },
    says: /at least 20\.10\.10.*version=20\.10\.9/,
  },
]

for (const { name, version, says } of REFUSED) {
  test(`${name}: it is refused at once with the reason`, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'longhaul-test-'))
    const socket = join(folder, 'engine.sock')
    const server = createServer((_, response) => {
      response.setHeader('Content-Type', 'application/json')
      response.end(JSON.stringify(version))
    })
    await new Promise<void>((resolve) => server.listen(socket, resolve))
    try {
      await assert.rejects(connectEngine({ host: `unix://${socket}` }), (error: LonghaulError) => {
        assert.equal(error.code, 'Sandbox.EngineUnavailable')
        assert.match(error.message, says)
        return true
      })
    } finally {
      server.close()
      server.closeAllConnections()
      rmSync(folder, { recursive: true })
    }
  })
}

test('an engine that does not answer is named without the password of its address', async () => {
  await assert.rejects(connectEngine({ host: 'tcp://user:k-secret@127.0.0.1:1' }), (error: LonghaulError) => {
    assert.equal(error.code, 'Sandbox.EngineUnavailable')
    assert.match(error.message, /host=tcp:\/\/\*\*\*@127\.0\.0\.1:1, reason=connect ECONNREFUSED/)
    return !error.message.includes('k-secret')
  })
})
