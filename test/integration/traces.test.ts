/**
 * One trace of a whole evaluation: real server, workers, containers and policy server, in processes of their own; a collector that takes
 * the spans over HTTP. Then the same beside a collector that hangs: the run does not notice.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { changeEnvironment } from '../support/environment.ts'
import { synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { connect, startEvaluation } from '../../src/client/index.ts'
import { parseTraceparent } from '../../src/contracts/trace-context.ts'
import { prepareNamespace } from '../../src/stack/temporal-namespace.ts'
import { HANG_MS } from '../support/hang.ts'
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '../support/otlp-receiver.ts'
import { connectToOwnNamespace } from '../support/own-namespace.ts'
import { needsStack } from '../support/pipeline-world.ts'
import { type RecordingProxy, startRecordingProxy } from '../support/recording-proxy.ts'
import { withDeadline } from '../support/with-deadline.ts'

const root = join(import.meta.dirname, '../..')
const SECRET = 'canary-of-a-key-0123456789'
const SUITE = { kind: 'synthetic', family: 'one-wrong-line', seed: 3, split: 'eval', offset: 0 } as const

describe('the trace of an evaluation', { skip: needsStack }, () => {
  const closers: (() => Promise<unknown>)[] = []
  let collector: OtlpReceiver
  let proxy: RecordingProxy
  let spans: ReceivedSpan[]
  let workflowId = ''
  let store = ''
  const prompts: string[] = []
  let said = ''

  before(async () => {
    if (needsStack !== false) return
    collector = await startOtlpReceiver()
    closers.push(() => collector.close())
    proxy = await startRecordingProxy({
      target: process.env['LONGHAUL_POLICY_URL'] ?? '',
      rewrite: (body) => {
        if (Array.isArray(body['prompt'])) prompts.push(JSON.stringify(body['prompt']))
        return body
      },
    })
    closers.push(() => proxy.close())
    store = await mkdtemp(join(tmpdir(), 'traces-store-'))
    closers.push(() => rm(store, { recursive: true, force: true }))
    const place = await connectToOwnNamespace('traces')
    const { address, namespace } = place
    await prepareNamespace({ address, namespace, raiseRetention: false })
    await place.close()
    const worker = startWorker(namespace, collector.url)
    closers.push(() => stop(worker))
    await playEvaluation({ namespace, endpoint: collector.url, tasks: 2 })
    await stop(worker)
    spans = collector.spans
  })

  after(async () => {
    for (const close of closers.toReversed()) await close()
  })

  const startWorker = (namespace: string, endpoint: string): ChildProcess => {
    const env = {
      ...process.env,
      LONGHAUL_NAMESPACE: namespace,
      // A name of a run that is taken in a store and unknown to a namespace would confuse the runs of the shared stack.
      LONGHAUL_ARTIFACTS: store,
      LONGHAUL_HOST_ID: `traces-${process.pid}`,
      LONGHAUL_POLICY_API_KEY: SECRET,
      OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
      OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
    }
    const child = spawn(process.execPath, [join(root, 'bin/longhaul.mjs'), 'worker', '--role', 'all'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()))
    return child
  }

  const playEvaluation = async (input: { namespace: string; endpoint: string; tasks: number }): Promise<void> => {
    const { namespace, endpoint, tasks } = input
    const restore = changeEnvironment({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })
    const connection = await connect({ namespace })
    try {
      const handle = await startEvaluation({
        connection,
        recipe: 'mini',
        policy: 'base',
        overrides: {
          data: { heldOut: { ...SUITE, count: tasks } },
          evaluate: { tasks, attempts: 1, maxTurns: 2 },
          policyServer: { kind: 'embedded', url: proxy.url },
        },
        fresh: true,
      })
      ;({ workflowId } = handle)
      const ended = await withDeadline(handle.outcome(), HANG_MS, 'the evaluation')
      assert.equal(ended.status, 'completed', `${JSON.stringify(ended)}\n${said.slice(-4_000)}`)
      // Of a run that is over it changes nothing; it is steering all the same.
      await connection.client.workflow.getHandle(workflowId).cancel()
    } finally {
      await connection.close()
      restore()
    }
  }

  const named = (name: string): ReceivedSpan[] => spans.filter((span) => span.name === name)
  const parentOf = (span: ReceivedSpan): ReceivedSpan | undefined =>
    spans.find(({ spanId, traceId }) => spanId === span.parentSpanId && traceId === span.traceId)

  test('the spans lead from the client over root, rollout, group and episode to the activities', () => {
    const [start, ...others] = named('StartWorkflow:evaluate')
    assert.ok(start !== undefined && others.length === 0)
    assert.deepEqual([start.service, start.parentSpanId], ['longhaul-client', ''])
    assert.equal(start.attributes['temporal.workflow.id'], workflowId)
    const steps = named('RunActivity:advanceEpisode')
    assert.ok(steps.length >= 2, said.slice(-4_000))
    for (const step of steps) {
      const way: string[] = []
      for (let span: ReceivedSpan | undefined = step; span !== undefined; span = parentOf(span)) way.push(span.name)
      assert.deepEqual(way, [
        'RunActivity:advanceEpisode',
        'RunWorkflow:episode',
        'RunWorkflow:promptGroup',
        'RunWorkflow:rollout',
        'RunWorkflow:evaluate',
        'StartWorkflow:evaluate',
      ])
      const { 'longhaul.episode': episode, 'longhaul.firstTurn': first, 'longhaul.turns': turns } = step.attributes
      assert.match(String(episode), /\/\d{4}\/.+\/\d{2}$/)
      assert.ok(first === 0 && typeof turns === 'number' && turns > 0)
    }
    const [cancel] = named('CancelWorkflow')
    assert.deepEqual([cancel?.parentSpanId, cancel?.attributes], ['', { 'temporal.workflow.id': workflowId }])
    const lost = spans.filter(
      (span) => span.traceId === start.traceId && span !== start && parentOf(span) === undefined,
    )
    assert.deepEqual(lost, [])
  })

  test('sampling and publishing reach the policy server within the span of their activity', () => {
    const steps = new Map(named('RunActivity:advanceEpisode').map((span) => [span.spanId, span]))
    assert.ok(proxy.exchanges.length >= 2)
    for (const { traceparent, session } of proxy.exchanges) {
      const context = parseTraceparent(traceparent)
      const step = steps.get(context?.spanId ?? '')
      assert.equal(step?.traceId, context?.traceId, `${traceparent}`)
      assert.equal(step?.attributes['longhaul.episode'], session)
    }
  })

  test('spans of the worker name their role and the environment of the operator', () => {
    const [span] = named('RunWorkflow:evaluate')
    assert.equal(span?.service, 'longhaul-all')
    assert.equal(span.resource['deployment.environment.name'], 'test')
    assert.equal(span.attributes['longhaul.outcome'], 'completed')
  })

  test('no export contains keys, prompts or texts of tasks', () => {
    const raw = collector.raw()
    assert.match(raw, /advanceEpisode/, 'the search is broken')
    assert.ok(prompts.length >= 2 && prompts.every((prompt) => prompt.length > 20))
    const statements = synthesizeSuite({ ...SUITE, count: 2 }).map(({ row }) => row.problem_statement.trim())
    assert.ok(statements.every((statement) => statement.length > 10))
    for (const text of [SECRET, ...prompts, ...statements]) assert.ok(!raw.includes(text))
    for (const { attributes } of spans) {
      for (const [name, value] of Object.entries(attributes)) {
        assert.match(name, /^(?:temporal|longhaul)\.|^error\.type$/)
        if (typeof value === 'string') assert.match(value, /^[\w.:/@+=-]{1,300}$/)
      }
    }
  })

  test('a run completes although the collector hangs, and the worker reports it once', async () => {
    const bad = await startOtlpReceiver('hangs')
    closers.push(() => bad.close())
    const place = await connectToOwnNamespace('traces-hang')
    const { address, namespace } = place
    await prepareNamespace({ address, namespace, raiseRetention: false })
    await place.close()
    said = ''
    const worker = startWorker(namespace, bad.url)
    closers.push(() => stop(worker))
    await playEvaluation({ namespace, endpoint: bad.url, tasks: 1 })
    await stop(worker)
    assert.ok(bad.requests() > 1, 'too few exports were sent')
    assert.equal(worker.exitCode, 0, said.slice(-4_000))
    assert.equal(said.match(/no traces: the collector/g)?.length, 1, said.slice(-4_000))
  })
})

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null && child.kill('SIGTERM')) await once(child, 'exit')
}
