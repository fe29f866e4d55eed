/**
 * A Temporal server behind TLS, client certificates and an API key: the client, the set-up of a namespace, schedules and a worker reach
 * it by the settings of Temporal's own tools, keys go to no other address, and each wrong setting is one clear error. The server is
 * real; what secures it is a door in front of it.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connect, createSchedule, deleteSchedule, listSchedules } from '../../src/client/index.ts'
import { isLonghaulError, type LonghaulError } from '../../src/contracts/errors.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import { hasPoller, inspectNamespace } from '../../src/stack/temporal-namespace.ts'
import { eventually } from '../support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { createAuthority, openTemporalGate, type Authority, type TemporalGate } from '../support/temporal-gate.ts'

const API_KEY = 'key-of-the-test-7a1f'

async function refusal(attempt: Promise<unknown>): Promise<LonghaulError> {
  const outcome = await attempt.then(
    () => null,
    (error: unknown) => error,
  )
  if (isLonghaulError(outcome)) return outcome
  throw new assert.AssertionError({ message: `Expected a LonghaulError, got ${String(outcome)}` })
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

  for (const [name, env] of Object.entries({ 'a profile of Temporal’s tools': byProfile, variables: byVariables })) {
    test(`the client and its schedules reach it by ${name}`, async () => {
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

  test('a worker polls through it, and the set-up of the namespace asks through it', async () => {
    const env = {
      ...byProfile(),
      LONGHAUL_ARTIFACTS: join(directory, 'artifacts'),
      LONGHAUL_CACHE: directory,
      LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
    }
    const worker = spawn(process.execPath, ['bin/longhaul.mjs', 'worker', '--role', 'artifacts'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    worker.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
    try {
      const connection = await connect({ env })
      try {
        await eventually(async () => {
          assert.equal(worker.exitCode, null, said)
          const asked = { namespace, queue: QUEUES.artifacts, pid: worker.pid ?? 0 }
          assert.ok(await hasPoller(connection.client.connection as never, asked), said)
        })
      } finally {
        await connection.close()
      }
    } finally {
      worker.kill('SIGTERM')
      await once(worker, 'exit')
    }
    assert.deepEqual([...gate.authorizations], [`Bearer ${API_KEY}`])
    const before = { ...process.env }
    Object.assign(process.env, byProfile())
    try {
      const facts = await inspectNamespace({ address: gate.address, namespace })
      assert.match(facts.serverVersion, /^\d+\./)
    } finally {
      for (const name of Object.keys(process.env)) if (!(name in before)) delete process.env[name]
      Object.assign(process.env, before)
    }
  })

  test('keys and certificates go to no other address than the one they were stated for', async () => {
    const other = await open({ ...authority.issue('other') })
    // The local stack's address wins, without the key of the profile; this one speaks TLS, so it is not reached either.
    const env = { ...byProfile(), LONGHAUL_TEMPORAL_ADDRESS: other.address, LONGHAUL_NAMESPACE: namespace }
    const error = await refusal(connect({ env }))
    assert.match(error.message, /it speaks TLS: set TEMPORAL_TLS=true/)
    const connection = await connect({ env: { ...env, LONGHAUL_TEMPORAL_ADDRESS: target } })
    await connection.close()
    assert.deepEqual([...other.authorizations], [])
  })

  test('a wrong key is refused by name, at once', async () => {
    const error = await refusal(connect({ env: { ...byVariables(), TEMPORAL_API_KEY: 'another' } }))
    assert.equal(error.code, 'Temporal.Refused')
    assert.match(error.message, /TEMPORAL_API_KEY/)
    assert.ok(!error.message.includes('another'))
  })

  test('an expired certificate, an unknown authority, another name: each is said, and names its fix', async () => {
    const expired = await open({ ...authority.issue('expired', -1) })
    const at = (changes: NodeJS.ProcessEnv): Promise<LonghaulError> =>
      refusal(connect({ env: { ...byVariables(), ...changes } }))
    assert.match((await at({ TEMPORAL_ADDRESS: expired.address })).message, /certificate has expired/)
    assert.match((await at({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: '' })).message, /TEMPORAL_TLS_SERVER_CA_CERT_PATH/)
    assert.match((await at({ TEMPORAL_TLS_SERVER_NAME: 'elsewhere.test' })).message, /TEMPORAL_TLS_SERVER_NAME/)
  })

  test('a server that wants a client certificate says so, also to a client without TLS', async () => {
    const without = { TEMPORAL_TLS_CLIENT_CERT_PATH: '', TEMPORAL_TLS_CLIENT_KEY_PATH: '' }
    const missing = await refusal(connect({ env: { ...byVariables(), ...without } }))
    assert.match(missing.message, /client certificate: set TEMPORAL_TLS_CLIENT_CERT_PATH/)
    const stranger = createAuthority(join(directory, 'strangers')).issue('stranger')
    const foreign = { TEMPORAL_TLS_CLIENT_CERT_PATH: stranger.certPath, TEMPORAL_TLS_CLIENT_KEY_PATH: stranger.keyPath }
    assert.equal((await refusal(connect({ env: { ...byVariables(), ...foreign } }))).code, 'Temporal.Unreachable')
    const plain = await refusal(connect({ env: { ...base, TEMPORAL_ADDRESS: gate.address } }))
    assert.match(plain.message, /it speaks TLS/)
  })

  test('TLS towards a server without it is named', async () => {
    const error = await refusal(connect({ env: { ...base, TEMPORAL_ADDRESS: target, TEMPORAL_TLS: 'true' } }))
    assert.match(error.message, /speaks no TLS/)
  })
})
