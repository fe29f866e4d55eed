/**
 * A whole evaluation whose records lie in a bucket: real server of S3, real workers and containers; only what the model says is
 * scripted. The bucket goes away in the middle. Its records are those of the same evaluation on a directory.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { findBlockers, type LonghaulConnection, startEvaluation } from '../../src/client/index.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { prepareNamespace } from '../../src/stack/temporal-namespace.ts'
import { type FaultyProxy, startFaultyProxy } from '../support/artifacts/faulty-proxy.ts'
import {
  findS3Server,
  openBucket,
  S3_KEY,
  S3_SECRET,
  type S3Server,
  startS3Server,
} from '../support/artifacts/s3-server.ts'
import { digestRun, type RunDigest } from '../support/chaos/run-digest.ts'
import {
  messagesOf,
  runs,
  type ScriptedEndpoint,
  startScriptedEndpoint,
} from '../support/chat-endpoint/scripted-endpoint.ts'
import { eventually, HANG_MS } from '../support/hang.ts'
import { connectToOwnNamespace } from '../support/own-namespace.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { withDeadline } from '../support/with-deadline.ts'

const root = join(import.meta.dirname, '../..')
const SUITE = { kind: 'synthetic', family: 'one-wrong-line', seed: 2, split: 'eval', count: 2, offset: 0 } as const
const KEY_VARIABLE = 'LONGHAUL_STACK'

const found = needsStack === false ? await findS3Server() : { reason: needsStack }
const skip = 'reason' in found ? found.reason : false

/** Repairs the first task and gives the second up after a look. */
function play() {
  const tasks = synthesizeSuite(SUITE).map(({ row }) => row)
  return startScriptedEndpoint((request) => {
    const [, issue, ...rest] = messagesOf(request)
    const place = tasks.findIndex(({ problem_statement: statement }) => issue?.content.includes(statement.trim()))
    const turn = rest.length / 2
    if (place !== 0) return runs(turn === 0 ? 'ls' : 'submit')
    return turn === 0 ? runs(`git apply <<'END'\n${tasks[0]?.patch ?? ''}\nEND`) : runs('submit')
  })
}

describe('an evaluation on a bucket', { skip }, () => {
  const closers: (() => Promise<unknown>)[] = []
  let world: PipelineWorld
  let server: S3Server
  let proxy: FaultyProxy
  let endpoint: ScriptedEndpoint
  let own: LonghaulConnection
  let env: NodeJS.ProcessEnv
  let store: ArtifactStore
  let said = ''
  let onBucket: RunDigest
  let blocked = ''
  let histories = ''

  before(async () => {
    if ('reason' in found) return
    world = await attachWorld()
    closers.push(() => world.close())
    server = await startS3Server(found.program)
    closers.push(() => server.close())
    proxy = await startFaultyProxy(server.url)
    closers.push(() => proxy.close())
    endpoint = await play()
    closers.push(() => endpoint.close())
    own = await connectToOwnNamespace('bucket')
    closers.push(() => own.close())
    await prepareNamespace({ address: own.address, namespace: own.namespace, raiseRetention: false })
    env = {
      ...process.env,
      ...server.environment,
      AWS_ENDPOINT_URL_S3: proxy.url,
      LONGHAUL_NAMESPACE: own.namespace,
      LONGHAUL_ARTIFACTS: `s3://${server.bucket}/lab/one`,
      LONGHAUL_HOST_ID: `bucket-${process.pid}`,
    }
    store = openBucket(server).store
    const worker = startWorker()
    closers.push(() => stop(worker))
  })

  after(async () => {
    for (const close of closers.toReversed()) await close()
  })

  const startWorker = (): ChildProcess => {
    const child = spawn(process.execPath, [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'all'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
    return child
  }

  const evaluate = (connection: LonghaulConnection) =>
    startEvaluation({
      connection,
      recipe: 'nightly',
      overrides: {
        model: { base: 'big-model' },
        data: { heldOut: SUITE },
        scaffold: { profile: 'paper' },
        evaluate: { tasks: 2, attempts: 1, maxTurns: 3, context: 9_000 },
        policyServer: { kind: 'chat', url: endpoint.url, chat: { apiKeyVariable: KEY_VARIABLE } },
      },
      fresh: true,
    })

  test('an evaluation is played and graded, and names the bucket while it waits for it', async () => {
    let isAway = false
    let hasActed = false
    proxy.obey(({ method, path }) => {
      // From the moment at which an action is about to be recorded.
      if (method === 'PUT' && path.endsWith('.action.json') && !hasActed) isAway = hasActed = true
      return isAway ? { kind: 'gone' } : null
    })
    const handle = await evaluate(own)
    await eventually(async () => {
      const { blockers } = await findBlockers({ connection: own, workflowId: handle.workflowId, longerThanMs: 3_000 })
      const blocker = blockers.find(({ on }) => on.kind === 'artifact-store')
      assert.ok(blocker !== undefined, said.slice(-2_000))
      blocked = JSON.stringify(blocker)
    })
    isAway = false
    const ended = await withDeadline(handle.outcome(), HANG_MS, 'the evaluation on the bucket')
    assert.equal(ended.status, 'completed', `${JSON.stringify(ended)}\n${said.slice(-4_000)}`)
    if (ended.status !== 'completed') return
    onBucket = await digestRun(store, ended.result.run)
    for await (const { workflowId } of own.client.workflow.list())
      histories += textsIn(await own.client.workflow.getHandle(workflowId).fetchHistory())
  })

  test('a run names refused credentials while it waits for them, and no activity fails', async (t) => {
    t.after(() => proxy.obey(() => null))
    const refused = new Map<string, number>()
    let isRefusing = false
    let hasActed = false
    proxy.obey(({ method, path }) => {
      if (method === 'PUT' && path.endsWith('.action.json') && !hasActed) isRefusing = hasActed = true
      if (!isRefusing) return null
      refused.set(path, (refused.get(path) ?? 0) + 1)
      return { kind: 'answer', status: 403, code: 'InvalidAccessKeyId' }
    })
    const handle = await evaluate(own)
    const outcome = withDeadline(handle.outcome(), HANG_MS, 'the evaluation whose credentials were refused')
    const named = eventually(async () => {
      const { blockers } = await findBlockers({ connection: own, workflowId: handle.workflowId, longerThanMs: 3_000 })
      const blocker = blockers.find(({ on }) => on.kind === 'artifact-store')
      assert.match(JSON.stringify(blocker), /accept the credentials of this machine \(InvalidAccessKeyId/)
      // More often than an activity has attempts.
      assert.ok(Math.max(...refused.values()) > 6, JSON.stringify([...refused]))
    })
    await Promise.race([named, outcome])
    assert.ok(isRefusing && Math.max(...refused.values()) > 6, 'the run ended before an operator could act')
    isRefusing = false
    const ended = await outcome
    assert.equal(ended.status, 'completed', `${JSON.stringify(ended)}\n${said.slice(-4_000)}`)
    if (ended.status !== 'completed') return
    assert.equal((await digestRun(store, ended.result.run)).episodes.length, 2)
    const root = handle.workflowId
    for await (const { workflowId, parentExecution } of own.client.workflow.list()) {
      if (workflowId !== root && !workflowId.startsWith(`${root}/`)) continue
      const history = textsIn(await own.client.workflow.getHandle(workflowId).fetchHistory())
      assert.ok(!history.includes('Artifact.Unavailable'), `${workflowId} of ${parentExecution?.workflowId ?? 'none'}`)
    }
  })

  test('the blocker names the bucket', () => {
    assert.match(blocked, /s3:\/\/records\/lab\/one/)
  })

  test('its records equal those of the same evaluation on a directory', async () => {
    const handle = await evaluate(world.connection)
    const ended = await withDeadline(handle.outcome(), HANG_MS, 'the evaluation on the directory')
    assert.equal(ended.status, 'completed', JSON.stringify(ended))
    if (ended.status !== 'completed') return
    const onDirectory = await digestRun(world.store, ended.result.run)
    assert.ok(onBucket.episodes.length === 2 && onBucket.episodes.every(({ turns }) => turns.length === 2))
    assert.deepEqual(onBucket, onDirectory)
  })

  test('no log, history or record contains the secret of the bucket', async () => {
    assert.match(histories, /nightly/, 'the search is broken')
    let records = ''
    for (const key of await store.list('')) records += Buffer.from((await store.read(key)) ?? '').toString('latin1')
    for (const secret of [S3_SECRET, S3_KEY])
      for (const [where, text] of Object.entries({ log: said, histories, records, blocked }))
        assert.ok(!text.includes(secret), where)
  })

  test('a policy server of another machine is refused in one sentence without a request to it', async () => {
    const handle = await startEvaluation({
      connection: own,
      recipe: 'nightly',
      overrides: {
        data: { heldOut: SUITE },
        evaluate: { policy: 'base', tasks: 2 },
        policyServer: { url: 'http://gpu-1.invalid:8000' },
      },
      fresh: true,
    })
    const ended = await withDeadline(handle.outcome(), HANG_MS, 'the refused evaluation')
    assert.equal(ended.status, 'failed')
    assert.match(
      JSON.stringify(ended),
      /LONGHAUL_WEIGHTS to name a directory that the policy server http:\/\/gpu-1.invalid/,
    )
  })

  for (const [what, change, expected] of [
    [
      'wrong credentials',
      { AWS_SECRET_ACCESS_KEY: 'another' },
      /Expected the artifact store to accept the credentials/,
    ],
    [
      'no such bucket',
      { LONGHAUL_ARTIFACTS: 's3://not-there/x' },
      /Expected the bucket of the artifact store to exist/,
    ],
    [
      'an address of another kind',
      { LONGHAUL_ARTIFACTS: 'gs://records/x' },
      /Expected LONGHAUL_ARTIFACTS to be a directory or s3/,
    ],
  ] as const) {
    test(`a worker with ${what} ends with one error`, async () => {
      proxy.obey(() => null)
      const child = spawn(process.execPath, [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'artifacts'], {
        env: { ...env, ...change },
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      let text = ''
      child.stderr.on('data', (bytes: Buffer) => (text += bytes.toString()))
      const [code] = (await once(child, 'exit')) as [number | null]
      assert.notEqual(code, 0)
      assert.equal(text.match(new RegExp(expected.source, 'g'))?.length, 1, text)
      assert.ok(!text.includes(S3_SECRET))
    })
  }
})

/** Every text of a history, also in the bytes of payloads. */
function textsIn(value: unknown): string {
  if (typeof value === 'string') return `${value}\n`
  if (value instanceof Uint8Array) return `${Buffer.from(value).toString('latin1')}\n`
  return typeof value === 'object' && value !== null ? Object.values(value).map(textsIn).join('') : ''
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || !child.kill('SIGTERM')) return
  await once(child, 'exit')
}
