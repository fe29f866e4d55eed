/** A worker that cannot start ends, says why, and leaves nothing that keeps its process. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
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

test('a handle that a library left open does not keep a finished command running', async () => {
  const leak = 'data:text/javascript,setInterval(() => {}, 1_000)'
  const [good, bad] = await Promise.all(
    ['--help', 'no-such-command'].map((what) => run(['--import', leak, command, what])),
  )
  assert.deepEqual(good, { code: 0, stderr: '' })
  assert.equal(bad?.code, 1)
})

/** A forced end is one that the command waited five seconds for: threads of a runtime that was begun too early kept the process. */
const TELL_FORCED =
  'data:text/javascript,const { exit } = process; process.exit = (code) => { process.stderr.write("forced\\n"); exit(code) }'

test('a worker that cannot start prints one line and ends by itself without a call to a server', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'worker-refused-'))
  t.after(() => rm(root, { recursive: true, force: true }))
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.after(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const env = {
    PATH: process.env['PATH'],
    LONGHAUL_TEMPORAL_ADDRESS: '127.0.0.1:1',
    LONGHAUL_ARTIFACTS: join(root, 'artifacts'),
    LONGHAUL_CACHE: join(root, 'cache'),
  }
  for (const [role, wrong, reason] of [
    ['artifacts', { LONGHAUL_HEALTH_ADDRESS: `127.0.0.1:${port}` }, /LONGHAUL_HEALTH_ADDRESS=.* EADDRINUSE/],
    ['trainer', { LONGHAUL_PYTHON: '/nope' }, /LONGHAUL_PYTHON .*\/nope: there is no such file/],
    ['artifacts', { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector' }, /OTEL_EXPORTER_OTLP_ENDPOINT/],
    ['artifacts', { LONGHAUL_METRICS_OTLP: 'http://' }, /LONGHAUL_METRICS_OTLP is "http:\/\/", which cannot be used/],
    ['artifacts', { LONGHAUL_METRICS_OTLP: 'http://u:k-secret@h:99999' }, /METRICS_OTLP is "http:\/\/\*\*\*@h:99999"/],
    ['artifacts', { LONGHAUL_ALARM_HOSTS: 'http://u:k-secret@h' }, /LONGHAUL_ALARM_HOSTS .* got "http:\/\/\*\*\*@h"/],
    ['artifacts', { LONGHAUL_NAMESPACE: 'a\nb' }, /Expected the namespace \(LONGHAUL_NAMESPACE/],
  ] as const) {
    const { code, stderr } = await run(['--import', TELL_FORCED, command, 'worker', '--role', role], {
      ...env,
      ...wrong,
    })
    assert.match(stderr, reason)
    assert.match(stderr, /^error Config\.Invalid: [^\n]*\n$/)
    assert.doesNotMatch(stderr, /k-secret/)
    assert.equal(code, 1)
  }
})

describe('against a server', { skip: needsStack }, () => {
  let artifacts: string

  before(async () => {
    artifacts = await mkdtemp(join(tmpdir(), 'worker-start-'))
  })

  after(() => rm(artifacts, { recursive: true, force: true }))

  for (const role of [...ROLES, 'all']) {
    test(`${role}: an unknown namespace is named, and the process ends`, async () => {
      const env = { ...process.env, LONGHAUL_NAMESPACE: 'not-there', LONGHAUL_ARTIFACTS: artifacts }
      const { code, stderr } = await run([command, 'worker', '--role', role], env)
      // As for a command: the setting is wrong, the server is well.
      assert.equal(code, 1)
      assert.match(
        stderr,
        /^error Config\.NotFound: The Temporal server at \S+ has no namespace not-there\. Set LONGHAUL_NAMESPACE/m,
      )
    })
  }

  test('a worker that cannot be created reports its error, and the others release the connection', async () => {
    const temporal = readTemporalSettings()
    const connection = await NativeConnection.connect({ address: temporal.address })
    // The SDK refuses two workers of one queue on one connection.
    const plan = { taskQueue: 'twice', activities: { none: () => Promise.resolve() } }
    await assert.rejects(createWorkers(connection, temporal, [plan, plan]), /twice/)
    await connection.close()
  })
})
