/**
 * A Temporal server behind TLS, client certificates and an API key: the client, the set-up of a namespace, schedules and a worker reach
 * it by the settings of Temporal's own tools, keys go to no other address, and each wrong setting is one clear error. The server is
 * real; what secures it is a door in front of it.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import {
  connect,
  createSchedule,
  deleteSchedule,
  type LonghaulConnection,
  listSchedules,
  startEvaluation,
} from '../../src/client/index.ts'
import { isLonghaulError, type LonghaulError } from '../../src/contracts/errors.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import { readTemporalSettings } from '../../src/platform/temporal-settings.ts'
import { doctor } from '../../src/stack/doctor/doctor.ts'
import { hasPoller, inspectNamespace, prepareNamespace } from '../../src/stack/temporal-namespace.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { closeServer, freePort, listenOnLoopback } from '../support/loopback.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { createAuthority, openTemporalGate, type Authority, type TemporalGate } from '../support/temporal-gate.ts'
import { withDeadline } from '../support/with-deadline.ts'

const API_KEY = 'key-of-the-test-7a1f'

async function refusal(attempt: Promise<unknown>): Promise<LonghaulError> {
  const outcome = await attempt.then(
    () => null,
    (error: unknown) => error,
  )
  if (isLonghaulError(outcome)) return outcome
  throw new assert.AssertionError({ message: `Expected a LonghaulError, got ${String(outcome)}` })
}

function startWorker(env: NodeJS.ProcessEnv, role = 'control'): { child: ChildProcess; said: () => string } {
  const child = spawn(process.execPath, ['bin/longhaul.mjs', 'worker', '--role', role], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
  return { child, said: () => said }
}

/** One of its activities has been taken by the worker. */
async function isPlayedBy({ client }: LonghaulConnection, workflowId: string, child: ChildProcess): Promise<void> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory()
  const takers = events?.flatMap(({ activityTaskStartedEventAttributes: started }) => started?.identity ?? [])
  assert.ok(takers?.some((identity) => identity.startsWith(`${child.pid}@`)))
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || !child.kill('SIGTERM')) return
  await withDeadline(once(child, 'exit'), HANG_MS, 'the end of the worker')
}

describe('a secured Temporal server', { skip: needsServer }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-secured-'))
  let authority: Authority
  let client: { certPath: string; keyPath: string }
  let target = ''
  let namespace = ''
  let gate: TemporalGate
  /** A home without profiles, and none of the addresses that the run of the tests gives. */
  let base: NodeJS.ProcessEnv
  let profiles = ''

  const closers: (() => Promise<unknown>)[] = []
  const open = async (
    options: Partial<Parameters<typeof openTemporalGate>[0]> & { certPath: string; keyPath: string },
  ) => {
    const opened = await openTemporalGate({ target, ...options })
    closers.push(() => opened.close())
    return opened
  }

  before(async () => {
    const own = await connectToOwnNamespace('secured')
    closers.push(() => own.close())
    ;({ address: target, namespace } = own)
    authority = createAuthority(join(directory, 'authority'))
    client = authority.issue('client')
    gate = await open({ ...authority.issue('server'), clientCaPath: authority.caPath, apiKey: API_KEY })
    const { LONGHAUL_TEMPORAL_ADDRESS: _address, LONGHAUL_NAMESPACE: _namespace, ...others } = process.env
    base = { ...others, HOME: directory, XDG_CONFIG_HOME: directory }
    profiles = join(directory, 'profiles.toml')
    writeFileSync(
      profiles,
      [
        '[profile.secured]',
        `address = "${gate.address}"`,
        `namespace = "${namespace}"`,
        `api_key = "${API_KEY}"`,
        '[profile.secured.tls]',
        'server_name = "temporal.test"',
        `server_ca_cert_path = "${authority.caPath}"`,
        `client_cert_path = "${client.certPath}"`,
        `client_key_path = "${client.keyPath}"`,
      ].join('\n'),
    )
  })

  after(async () => {
    for (const close of closers.toReversed()) await close()
    rmSync(directory, { recursive: true, force: true })
  })

  const byProfile = (): NodeJS.ProcessEnv => ({ ...base, TEMPORAL_CONFIG_FILE: profiles, TEMPORAL_PROFILE: 'secured' })
  const byVariables = (): NodeJS.ProcessEnv => ({
    ...base,
    TEMPORAL_ADDRESS: gate.address,
    TEMPORAL_NAMESPACE: namespace,
    TEMPORAL_API_KEY: API_KEY,
    TEMPORAL_TLS_SERVER_NAME: 'temporal.test',
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: authority.caPath,
    TEMPORAL_TLS_CLIENT_CERT_PATH: client.certPath,
    TEMPORAL_TLS_CLIENT_KEY_PATH: client.keyPath,
  })

  const clientFiles = ({ certPath, keyPath }: { certPath: string; keyPath: string }): NodeJS.ProcessEnv => ({
    TEMPORAL_TLS_CLIENT_CERT_PATH: certPath,
    TEMPORAL_TLS_CLIENT_KEY_PATH: keyPath,
  })
  const workerEnvironment = (secured: NodeJS.ProcessEnv): NodeJS.ProcessEnv => ({
    ...secured,
    LONGHAUL_ARTIFACTS: join(directory, 'artifacts'),
    LONGHAUL_CACHE: directory,
    LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
  })

  for (const [name, env] of Object.entries({ 'a profile of Temporal’s tools': byProfile, variables: byVariables })) {
    test(`the client and its schedules reach the server by ${name}`, async () => {
      const passed = gate.counts.passed
      const connection = await connect({ env: env() })
      try {
        assert.deepEqual([connection.address, connection.namespace], [gate.address, namespace])
        const id = `secured-${name.length}`
        assert.equal((await createSchedule({ connection, id, recipe: 'nightly' })).kind, 'created')
        await eventually(async () => {
          assert.ok((await listSchedules({ connection })).some((one) => one.id === id))
        })
        await deleteSchedule({ connection, id })
      } finally {
        await connection.close()
      }
      assert.ok(gate.counts.passed > passed)
    })
  }

  test('a worker polls through it, and the set-up of the namespace connects through it', async (t) => {
    const env = workerEnvironment(byProfile())
    const { child, said } = startWorker(env, 'artifacts')
    try {
      const connection = await connect({ env })
      try {
        await eventually(async () => {
          assert.equal(child.exitCode, null, said())
          const asked = { namespace, queue: QUEUES.artifacts, pid: child.pid ?? 0 }
          assert.ok(await hasPoller(connection.client.connection as never, asked), said())
        })
      } finally {
        await connection.close()
      }
    } finally {
      await stop(child)
    }
    assert.deepEqual([...gate.authorizations], [`Bearer ${API_KEY}`])
    useEnvironment(t, byProfile())
    const facts = await inspectNamespace({ address: gate.address, namespace })
    assert.match(facts.serverVersion, /^\d+\./)
  })

  test('keys and certificates are sent only to the address that they were configured for', async () => {
    const other = await open({ ...authority.issue('other') })
    // The local stack's address wins, without the key of the profile; this one speaks TLS, so it is not reached either.
    const env = { ...byProfile(), LONGHAUL_TEMPORAL_ADDRESS: other.address, LONGHAUL_NAMESPACE: namespace }
    const error = await refusal(connect({ env }))
    assert.match(error.message, /it speaks TLS: set TEMPORAL_TLS=true/)
    const connection = await connect({ env: { ...env, LONGHAUL_TEMPORAL_ADDRESS: target } })
    await connection.close()
    assert.deepEqual([...other.authorizations], [])
  })

  test('a wrong key is refused by name at once', async () => {
    const error = await refusal(connect({ env: { ...byVariables(), TEMPORAL_API_KEY: 'another' } }))
    assert.equal(error.code, 'Temporal.Refused')
    assert.match(error.message, /TEMPORAL_API_KEY/)
    assert.ok(!error.message.includes('another'))
  })

  test('an expired certificate, an unknown authority and a wrong name are each reported with the fix', async () => {
    const expired = await open({ ...authority.issue('expired', -1) })
    const at = (changes: NodeJS.ProcessEnv): Promise<LonghaulError> =>
      refusal(connect({ env: { ...byVariables(), ...changes } }))
    assert.match((await at({ TEMPORAL_ADDRESS: expired.address })).message, /certificate has expired/)
    assert.match((await at({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: '' })).message, /TEMPORAL_TLS_SERVER_CA_CERT_PATH/)
    assert.match((await at({ TEMPORAL_TLS_SERVER_NAME: 'elsewhere.test' })).message, /TEMPORAL_TLS_SERVER_NAME/)
  })

  describe('the set-up and the doctor name what commands name', () => {
    const CASES: [what: string, change: () => NodeJS.ProcessEnv, code: string, says: RegExp][] = [
      [
        'a refused key',
        () => ({ TEMPORAL_API_KEY: 'another' }),
        'Temporal.Refused',
        /refuses this process .*: set TEMPORAL_API_KEY/,
      ],
      [
        'an unknown namespace',
        () => ({ TEMPORAL_NAMESPACE: 'not-there' }),
        'Config.NotFound',
        /has no namespace not-there.*namespace create/,
      ],
      [
        "another server's name",
        () => ({ TEMPORAL_TLS_SERVER_NAME: 'elsewhere.test' }),
        'Temporal.Unreachable',
        /TEMPORAL_TLS_SERVER_NAME$/,
      ],
      [
        'a client certificate of the future',
        () => clientFiles(authority.issueEarly('early')),
        'Temporal.Unreachable',
        /the client's certificate is not valid before 2\d{3}-.*: compare the clocks/,
      ],
    ]
    for (const [what, change, code, says] of CASES) {
      test(what, async (t) => {
        const env = { ...byVariables(), ...change() }
        const command = await refusal(connect({ env }))
        useEnvironment(t, { ...env, LONGHAUL_TEMPORAL_ADDRESS: '', LONGHAUL_NAMESPACE: '' })
        const { address, namespace: asked } = readTemporalSettings()
        const setUp = await refusal(inspectNamespace({ address, namespace: asked }))
        for (const error of [command, setUp]) {
          assert.equal(error.code, code)
          assert.match(error.message, says)
          assert.doesNotMatch(error.message, /longhaul up|UNAUTHENTICATED|NOT_FOUND/)
        }
        const { checks } = await doctor({ role: 'control' })
        const found = checks.find(({ group, name }) => group === 'temporal' && name === 'server')
        assert.equal(found?.level, 'fail')
        assert.doesNotMatch(`${found.value} ${found.fix}`, /longhaul up|start that server|UNAUTHENTICATED|NOT_FOUND/)
      })
    }
  })

  test('a web server in the place of the server is named, with TLS and without', async () => {
    const plain = createHttpServer((_, response) => response.end('<html>'))
    const { certPath, keyPath } = authority.issue('web')
    const files = { cert: readFileSync(certPath), key: readFileSync(keyPath) }
    const secure = createHttpsServer(files, (_, response) => response.end('<html>'))
    try {
      const insecure = { ...base, TEMPORAL_ADDRESS: `127.0.0.1:${await listenOnLoopback(plain)}` }
      const secured = { ...byVariables(), TEMPORAL_ADDRESS: `127.0.0.1:${await listenOnLoopback(secure)}` }
      for (const env of [insecure, secured]) {
        const error = await refusal(connect({ env }))
        assert.equal(error.code, 'Temporal.Unreachable')
        assert.match(
          error.message,
          /a server without gRPC answers there, perhaps Temporal's UI: write the port .* TEMPORAL_ADDRESS$/,
        )
      }
    } finally {
      await Promise.all([closeServer(plain), closeServer(secure)])
    }
  })

  test('a namespace without the search attributes ends a control worker and a start, before a run begins', async (t) => {
    const connection = await connectToOwnNamespace('bare', { isBare: true })
    t.after(() => connection.close())
    const bare = connection.namespace
    const error = await refusal(startEvaluation({ connection, recipe: 'mini' }))
    assert.equal(error.code, 'Config.Invalid')
    assert.match(error.message, /lacks the search attributes TrainRun, .*: longhaul doctor --role control --fix/)
    const worker = workerEnvironment({ ...base, TEMPORAL_ADDRESS: target, TEMPORAL_NAMESPACE: bare })
    const { child, said } = startWorker(worker)
    t.after(() => stop(child))
    await withDeadline(once(child, 'exit'), HANG_MS, 'the end of the worker')
    assert.equal(child.exitCode, 1)
    assert.match(said(), /^error Config\.Invalid: .*lacks the search attributes TrainRun/m)
    assert.equal((await connection.client.workflow.count()).count, 0)
    await prepareNamespace({ address: target, namespace: bare, raiseRetention: false })
    const { workflowId } = await startEvaluation({ connection, recipe: 'mini', run: 'after-the-fix' })
    await connection.client.workflow.getHandle(workflowId).terminate()
  })

  test('a server that requires a client certificate says so, also to a client without TLS', async () => {
    const without = { TEMPORAL_TLS_CLIENT_CERT_PATH: '', TEMPORAL_TLS_CLIENT_KEY_PATH: '' }
    const missing = await refusal(connect({ env: { ...byVariables(), ...without } }))
    assert.match(missing.message, /client certificate: set TEMPORAL_TLS_CLIENT_CERT_PATH/)
    const stranger = createAuthority(join(directory, 'strangers')).issue('stranger')
    const foreign = { TEMPORAL_TLS_CLIENT_CERT_PATH: stranger.certPath, TEMPORAL_TLS_CLIENT_KEY_PATH: stranger.keyPath }
    assert.equal((await refusal(connect({ env: { ...byVariables(), ...foreign } }))).code, 'Temporal.Unreachable')
    const plain = await refusal(connect({ env: { ...base, TEMPORAL_ADDRESS: gate.address } }))
    assert.match(plain.message, /it speaks TLS/)
  })

  test('quotes the reason of a server that refuses a missing or unknown client certificate', async () => {
    const { certPath, keyPath } = authority.issue('strict')
    const port = await freePort()
    const files = ['-cert', certPath, '-key', keyPath, '-CAfile', authority.caPath]
    const wants = ['-Verify', '1', '-verify_return_error', '-alpn', 'h2', '-quiet']
    const server = spawn('openssl', ['s_server', '-accept', `127.0.0.1:${port}`, ...files, ...wants], {
      stdio: ['pipe', 'ignore', 'ignore'],
    })
    try {
      const at = { ...byVariables(), TEMPORAL_ADDRESS: `127.0.0.1:${port}` }
      const none = { TEMPORAL_TLS_CLIENT_CERT_PATH: '', TEMPORAL_TLS_CLIENT_KEY_PATH: '' }
      const foreign = clientFiles(createAuthority(join(directory, 'foreign')).issue('foreign'))
      await eventually(async () => {
        assert.match(
          (await refusal(connect({ env: { ...at, ...none } }))).message,
          /it wants a client certificate: set TEMPORAL_TLS/,
        )
      })
      const unknown = await refusal(connect({ env: { ...at, ...foreign } }))
      assert.match(
        unknown.message,
        /it does not know the authority of the client's certificate \(TEMPORAL_TLS_CLIENT_CERT_PATH/,
      )
    } finally {
      await stop(server)
    }
  })

  describe('a worker that the server refuses ends with one error that names the setting', {
    concurrency: true,
  }, () => {
    const CASES: [what: string, change: () => Promise<NodeJS.ProcessEnv>, says: RegExp][] = [
      [
        'a wrong key',
        async () => ({ TEMPORAL_API_KEY: 'another-key' }),
        /^error Temporal\.Refused: .*set TEMPORAL_API_KEY, or a client certificate/m,
      ],
      [
        'a server whose certificate has expired',
        async () => ({ TEMPORAL_ADDRESS: (await open(authority.issue('old-server', -1))).address }),
        /^error Temporal\.Unreachable: .*the server's certificate has expired: it needs a new one/m,
      ],
      [
        'a server of an unknown authority',
        async () => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: '' }),
        /^error Temporal\.Unreachable: .*unknown authority: name .* in TEMPORAL_TLS_SERVER_CA_CERT_PATH/m,
      ],
      [
        'a client certificate that has expired',
        async () => clientFiles(authority.issue('old-client', -1)),
        /^error Temporal\.Unreachable: .*the client's certificate has expired on 20.*: renew it \(TEMPORAL_TLS_CLIENT_CERT_PATH/m,
      ],
      [
        'a client certificate of another authority',
        async () => clientFiles(createAuthority(join(directory, 'elsewhere')).issue('elsewhere')),
        /^error Temporal\.Unreachable: .*refuses the client's certificate: give one of an authority that it knows \(TEMPORAL_TLS_CLIENT_CERT_PATH/m,
      ],
    ]
    for (const [what, change, says] of CASES) {
      test(what, async () => {
        const env = { ...workerEnvironment(byVariables()), ...(await change()) }
        const { child, said } = startWorker(env)
        await withDeadline(once(child, 'exit'), HANG_MS, 'the end of the worker')
        assert.notEqual(child.exitCode, 0)
        assert.match(said(), says)
        assert.equal(said().match(/^error /gm)?.length, 1, said())
        assert.doesNotMatch(said(), /^\s+at |another-key/m)
        const direct = await connect({ env: { ...base, TEMPORAL_ADDRESS: target, TEMPORAL_NAMESPACE: namespace } })
        try {
          const asked = { namespace, queue: QUEUES.control, pid: child.pid ?? 0 }
          assert.ok(!(await hasPoller(direct.client.connection as never, asked)))
        } finally {
          await direct.close()
        }
      })
    }
  })

  test('a run waits while its certificate is expired, names it, and continues after the renewal', async () => {
    const trusted = { clientCaPath: authority.caPath, apiKey: API_KEY }
    const door = await open({ ...authority.issue('first'), ...trusted })
    const port = Number(door.address.split(':')[1])
    const env = workerEnvironment({ ...byVariables(), TEMPORAL_ADDRESS: door.address })
    await prepareNamespace({ address: target, namespace, raiseRetention: false })
    const direct = await connect({ env: { ...base, TEMPORAL_ADDRESS: target, TEMPORAL_NAMESPACE: namespace } })
    const worker = startWorker(env)
    try {
      const asked = { namespace, queue: QUEUES.control, pid: worker.child.pid ?? 0 }
      await eventually(async () => {
        assert.equal(worker.child.exitCode, null, worker.said())
        assert.ok(await hasPoller(direct.client.connection as never, asked))
      })
      await door.close()
      const expired = await open({ ...authority.issue('late', -1), ...trusted, port })
      assert.match(
        (await refusal(connect({ env }))).message,
        /the server's certificate has expired: it needs a new one/,
      )
      const handle = await startEvaluation({ connection: direct, recipe: 'nightly', fresh: true })
      const run = direct.client.workflow.getHandle(handle.workflowId)
      await expired.close()
      assert.equal(worker.child.exitCode, null, worker.said())
      await open({ ...authority.issue('renewed'), ...trusted, port })
      await eventually(async () => {
        assert.equal(worker.child.exitCode, null, worker.said())
        await isPlayedBy(direct, handle.workflowId, worker.child)
      })
      assert.equal((await run.describe()).status.name, 'RUNNING')
    } finally {
      await stop(worker.child)
      await direct.close()
    }
  })

  test('commands name a replaced key, no worker ends, and the run continues with a worker that has the new key', async () => {
    const door = await open({ ...authority.issue('keyed'), clientCaPath: authority.caPath, apiKey: API_KEY })
    const env = workerEnvironment({ ...byVariables(), TEMPORAL_ADDRESS: door.address })
    await prepareNamespace({ address: target, namespace, raiseRetention: false })
    const direct = await connect({ env: { ...base, TEMPORAL_ADDRESS: target, TEMPORAL_NAMESPACE: namespace } })
    const before = startWorker(env)
    const workers = [before]
    try {
      await eventually(async () => {
        const asked = { namespace, queue: QUEUES.control, pid: before.child.pid ?? 0 }
        assert.ok(await hasPoller(direct.client.connection as never, asked))
      })
      door.accept('key-of-tomorrow')
      const error = await refusal(connect({ env }))
      assert.deepEqual([error.code, /set TEMPORAL_API_KEY/.test(error.message)], ['Temporal.Refused', true])
      const handle = await startEvaluation({ connection: direct, recipe: 'nightly', fresh: true })
      assert.equal(before.child.exitCode, null, before.said())
      await stop(before.child)
      const next = startWorker({ ...env, TEMPORAL_API_KEY: 'key-of-tomorrow' })
      workers.push(next)
      await eventually(() => isPlayedBy(direct, handle.workflowId, next.child))
      const { status } = await direct.client.workflow.getHandle(handle.workflowId).describe()
      assert.equal(status.name, 'RUNNING')
    } finally {
      for (const { child } of workers) await stop(child)
      await direct.close()
    }
  })

  test('TLS to a server without TLS is named as the cause', async () => {
    const error = await refusal(connect({ env: { ...base, TEMPORAL_ADDRESS: target, TEMPORAL_TLS: 'true' } }))
    assert.match(error.message, /speaks no TLS/)
  })
})
