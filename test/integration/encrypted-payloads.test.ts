/**
 * With LONGHAUL_CODEC_KEYS the Temporal server holds nothing that it could read: a run is started, refused and looked at through a real
 * worker and client with keys, and its raw history is searched for what it said.
 */
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { useEnvironment } from '../support/environment.ts'
import { connect, findBlockers, type LonghaulConnection, startTraining } from '../../src/client/index.ts'
import { startCodecServer } from '../../src/stack/codec-server.ts'
import { freePort } from '../support/loopback.ts'
import { eventually } from '../support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'

const root = join(import.meta.dirname, '../..')
/** In the request, and in the message of the failure that it leads to. */
const CANARY = `canary${randomBytes(6).toString('hex')}`
const ORIGIN = 'http://127.0.0.1:8233'

interface RawPayload {
  metadata?: Record<string, Uint8Array>
  data?: Uint8Array
}

/** Every payload of a raw answer, wherever it lies. */
function payloadsOf(value: unknown, found: RawPayload[] = []): RawPayload[] {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return found
  if ('metadata' in value && 'data' in value && value.data instanceof Uint8Array) found.push(value as RawPayload)
  for (const inner of Object.values(value)) payloadsOf(inner, found)
  return found
}

/** What can be read in an answer of the server, payloads as text. */
function readable(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner instanceof Uint8Array || Buffer.isBuffer(inner) ? Buffer.from(inner).toString('latin1') : inner,
  )
}

describe('encrypted payloads', { skip: needsServer }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'longhaul-encrypted-'))
  const keys = join(directory, 'keys')
  const running: ChildProcess[] = []
  let plain: LonghaulConnection
  let keyed: LonghaulConnection
  let env: NodeJS.ProcessEnv
  let workflowId = ''
  let said = ''

  before(async () => {
    writeFileSync(keys, `first ${randomBytes(32).toString('base64')}\n`)
    plain = await connectToOwnNamespace('encrypted')
    env = {
      ...process.env,
      LONGHAUL_NAMESPACE: plain.namespace,
      LONGHAUL_CODEC_KEYS: keys,
      LONGHAUL_ARTIFACTS: join(directory, 'artifacts'),
      LONGHAUL_CACHE: directory,
      LONGHAUL_POLICY_URL: 'http://127.0.0.1:9',
    }
    keyed = await connect({ env })
    startWorker(env)
  })

  function startWorker(variables: NodeJS.ProcessEnv): ChildProcess {
    const args = [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'control']
    // The stack's bundle has no failure converter: the worker makes one of its own.
    const { LONGHAUL_BUNDLE: _bundle, ...own } = variables
    const worker = spawn(process.execPath, args, { env: own, stdio: ['ignore', 'ignore', 'pipe'] })
    worker.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
    running.push(worker)
    return worker
  }

  after(async () => {
    for (const child of running) if (child.exitCode === null && child.kill('SIGTERM')) await once(child, 'exit')
    await keyed?.close()
    await plain?.close()
    rmSync(directory, { recursive: true, force: true })
  })

  test('a client with keys starts a run and reads why it failed', async () => {
    const started = await startTraining({ connection: keyed, recipe: 'mini', overrides: { [`trainer.${CANARY}`]: 1 } })
    workflowId = started.workflowId
    const handle = keyed.client.workflow.getHandle(workflowId)
    const failure = await eventually(async () => {
      assert.equal(running[0]?.exitCode, null, said)
      const { status } = await handle.describe()
      assert.notEqual(status.name, 'RUNNING')
      return handle.result().then(
        () => null,
        (error: unknown) => error as Error,
      )
    })
    assert.match(
      readable({
        message: String(failure),
        cause: String(failure?.cause),
        deep: String((failure?.cause as Error)?.cause),
      }),
      new RegExp(CANARY),
    )
  })

  test('the server stores no readable text of the run', async () => {
    const { workflowService } = plain.client
    const execution = { workflowId }
    const { history } = await workflowService.getWorkflowExecutionHistory({ namespace: plain.namespace, execution })
    const description = await workflowService.describeWorkflowExecution({ namespace: plain.namespace, execution })
    const payloads = payloadsOf(history)
    const encodings = payloads.map(({ metadata }) => Buffer.from(metadata?.['encoding'] ?? []).toString())
    assert.ok(payloads.length >= 3, `${payloads.length} payloads: the search is broken`)
    // Search attributes are an index of the server's, and stay readable.
    const indexed = new Set(
      payloadsOf(
        (history?.events ?? []).map((event) => [
          event.workflowExecutionStartedEventAttributes?.searchAttributes,
          event.upsertWorkflowSearchAttributesEventAttributes?.searchAttributes,
        ]),
      ),
    )
    assert.deepEqual(
      encodings.filter((encoding, at) => encoding !== 'binary/encrypted' && !indexed.has(payloads[at] ?? {})),
      [],
    )
    assert.ok(!readable({ history, description }).includes(CANARY), 'the canary is readable')
  })

  test('the codec server decodes for the UI’s own origin only', async (t) => {
    useEnvironment(t, { LONGHAUL_CODEC_KEYS: keys })
    const { url, server } = await startCodecServer({ host: '127.0.0.1', port: 0, origins: [ORIGIN], token: 'secret' })
    try {
      const { history } = await plain.client.workflowService.getWorkflowExecutionHistory({
        namespace: plain.namespace,
        execution: { workflowId },
      })
      const input = history?.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? []
      const body = JSON.stringify({
        payloads: input.map(({ metadata, data }) => ({
          metadata: Object.fromEntries(
            Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]),
          ),
          data: Buffer.from(data ?? []).toString('base64'),
        })),
      })
      const ask = (path: string, headers: Record<string, string>, text = body) =>
        fetch(`${url}${path}`, {
          method: 'POST',
          headers: { 'Content-Type': 'application/json', Authorization: 'Bearer secret', ...headers },
          body: text,
          signal: AbortSignal.timeout(10_000),
        })
      const decoded = await ask('/decode', { Origin: ORIGIN })
      assert.equal(decoded.headers.get('access-control-allow-origin'), ORIGIN)
      const { payloads } = (await decoded.json()) as { payloads: { data: string }[] }
      assert.match(Buffer.from(payloads[0]?.data ?? '', 'base64').toString(), new RegExp(CANARY))
      const encoded = await ask('/encode', { Origin: ORIGIN }, JSON.stringify({ payloads }))
      assert.doesNotMatch(await encoded.text(), new RegExp(Buffer.from(CANARY).toString('base64').slice(2, 14)))
      assert.equal((await ask('/decode', { Origin: 'http://evil.test' })).status, 403)
      assert.equal((await ask('/decode', { Authorization: 'Bearer other' })).status, 401)
      assert.equal((await ask('/decode', { 'Content-Type': 'text/plain' })).status, 415)
      assert.equal((await ask('/decode', {}, '{')).status, 400)
      assert.equal((await ask('/other', {})).status, 404)
      const altered = body.replace(/"data":"(.{30})/, '"data":"$1AAAA')
      assert.equal((await ask('/decode', {}, altered)).status, 400)
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })

  test('a codec server without keys, or one for every origin without a token, does not start', async (t) => {
    const settings = { port: await freePort(), origins: [], token: null }
    await assert.rejects(startCodecServer({ ...settings, host: '127.0.0.1' }), /Expected LONGHAUL_CODEC_KEYS/)
    useEnvironment(t, { LONGHAUL_CODEC_KEYS: keys })
    await assert.rejects(startCodecServer({ ...settings, host: '0.0.0.0' }), /LONGHAUL_CODEC_TOKEN/)
  })

  test('a control worker without the keys, or with another secret, blocks the run by name, and one with them continues it', async () => {
    const end = async (worker: ChildProcess | undefined): Promise<void> => {
      if (worker?.exitCode === null && worker.kill('SIGTERM')) await once(worker, 'exit')
    }
    await end(running[0])
    const { workflowId: id } = await startTraining({
      connection: keyed,
      recipe: 'mini',
      overrides: { 'trainer.no': 1 },
    })
    const others = join(directory, 'others')
    writeFileSync(others, `first ${randomBytes(32).toString('base64')}\n`)
    const { LONGHAUL_CODEC_KEYS: _keys, ...keyless } = env
    const worker = startWorker(keyless)
    const named = (why: RegExp) =>
      eventually(async () => {
        assert.equal(running.at(-1)?.exitCode, null, said)
        const { blockers } = await findBlockers({ connection: keyed, workflowId: id, longerThanMs: 1 })
        assert.match(blockers[0]?.error?.message ?? '', why)
        assert.equal(blockers[0]?.on.kind, 'workflow')
      })
    await named(/tried \d+ times: .*LONGHAUL_CODEC_KEYS is not set: name the file that holds this key/)
    await end(worker)
    // The first failure stays the one that the history tells.
    const { workflowId: other } = await startTraining({ connection: keyed, recipe: 'mini', run: 'other-secret' })
    const wrong = startWorker({ ...env, LONGHAUL_CODEC_KEYS: others })
    await eventually(async () => {
      const { blockers } = await findBlockers({ connection: keyed, workflowId: other, longerThanMs: 1 })
      assert.match(blockers[0]?.error?.message ?? '', /all workers and commands need the same LONGHAUL_CODEC_KEYS/)
    })
    await end(wrong)
    startWorker(env)
    await eventually(async () => {
      const { status } = await keyed.client.workflow.getHandle(id).describe()
      assert.notEqual(status.name, 'RUNNING')
    })
  })
})
