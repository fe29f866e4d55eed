/** A worker that cannot start ends, says why, and leaves nothing that keeps its process. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { NativeConnection } from '@temporalio/worker'
import { readTemporalSettings } from '../../src/platform/temporal-settings.ts'
import { createWorkers, ROLES } from '../../src/workers/run-worker.ts'
import { HANG_MS } from '../support/hang.ts'
import { needsStack } from '../support/pipeline-world.ts'

const command = join(import.meta.dirname, '../../bin/longhaul.mjs')

interface Ended {
  code: unknown
  stderr: string
}

function run(args: string[], env: NodeJS.ProcessEnv = process.env): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, args, { env, timeout: HANG_MS }, (error, _stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, stderr }),
    )
  })
}

test('a handle that a library left open does not keep a finished command', async () => {
  const leak = 'data:text/javascript,setInterval(() => {}, 1_000)'
  const [good, bad] = await Promise.all(
    ['--help', 'no-such-command'].map((what) => run(['--import', leak, command, what])),
  )
  assert.deepEqual(good, { code: 0, stderr: '' })
  assert.equal(bad?.code, 1)
})

describe('against a server', { skip: needsStack }, () => {
  let artifacts: string

  before(async () => {
    artifacts = await mkdtemp(join(tmpdir(), 'worker-start-'))
  })

  after(() => rm(artifacts, { recursive: true, force: true }))

  for (const role of [...ROLES, 'all']) {
    test(`${role}: a namespace that the server does not know is named, and the process ends`, async () => {
      const env = { ...process.env, LONGHAUL_NAMESPACE: 'not-there', LONGHAUL_ARTIFACTS: artifacts }
      const { code, stderr } = await run([command, 'worker', '--role', role], env)
      assert.equal(code, 2)
      assert.match(
        stderr,
        /^error Temporal\.Unreachable: Expected the Temporal server to know the namespace not-there/m,
      )
    })
  }

  test('of several workers one cannot be made: its error is told, and the others let go of the connection', async () => {
    const temporal = readTemporalSettings()
    const connection = await NativeConnection.connect({ address: temporal.address })
    // The SDK refuses two workers of one queue on one connection.
    const plan = { taskQueue: 'twice', activities: { none: () => Promise.resolve() } }
    await assert.rejects(createWorkers(connection, temporal, [plan, plan]), /twice/)
    await connection.close()
  })
})
