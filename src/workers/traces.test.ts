import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Context } from '@temporalio/activity'
import { ApplicationFailure, CancelledFailure, defaultPayloadConverter, type Headers } from '@temporalio/common'
import { startOtlpReceiver } from '../../test/support/otlp-receiver.ts'
import { formatTraceparent, TRACE_HEADER, type TraceContext } from '../contracts/trace-context.ts'
import { noteOnSpan, traceHeaders } from '../platform/current-trace.ts'
import { openTraces } from '../platform/traces.ts'
import { tracedOptions } from './traces.ts'

const PARENT: TraceContext = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
const HEADERS = { [TRACE_HEADER]: defaultPayloadConverter.toPayload({ traceparent: formatTraceparent(PARENT) }) }
const EPISODE = {
  run: 'demo-a',
  stage: 'dapo-1',
  iteration: 3,
  policy: 'v000001-0123abcd',
  suite: 'f'.repeat(64),
  taskId: 'one-wrong-line_7',
  index: 4,
  step: 2,
  placement: 1,
  sandbox: { name: 'a canary of a sandbox' },
}

const receiver = await startOtlpReceiver()
after(() => receiver.close())

interface Attempt {
  attempt?: number
  headers?: Headers
  body: () => Promise<unknown>
}

/** Attempts of `advanceEpisode` one after another, as a worker runs them. @returns what the collector got */
async function play(...attempts: Attempt[]) {
  receiver.spans.length = 0
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url }
  const traces = await openTraces('sandbox', { env, warn: assert.fail })
  const [intercept] = tracedOptions(traces).interceptors?.activity ?? []
  assert.ok(intercept !== undefined)
  for (const { attempt = 1, headers = HEADERS, body } of attempts) {
    const info = {
      activityType: 'advanceEpisode',
      activityId: '7',
      attempt,
      workflowExecution: { workflowId: 'train/demo-a/dapo-1/0003/task/one-wrong-line_7/ep/04', runId: 'r' },
    }
    const { inbound } = intercept({ info } as unknown as Context)
    await inbound?.execute?.({ args: [EPISODE], headers }, body).catch(() => undefined)
  }
  await traces?.close(10_000)
  return receiver.spans
}

test('each attempt is a span below the workflow with the episode, its turns and its end', async () => {
  const spans = await play(
    { body: () => Promise.reject(ApplicationFailure.retryable('a canary of a message', 'Model.Unavailable')) },
    {
      attempt: 2,
      body: () => {
        noteOnSpan({ 'longhaul.firstTurn': 8 })
        return Promise.resolve({ turns: 16, disposition: 'submitted', text: 'a canary of a result' })
      },
    },
  )
  assert.deepEqual(
    spans.map(({ traceId, parentSpanId, status }) => [traceId, parentSpanId, status]),
    [
      [PARENT.traceId, PARENT.spanId, 2],
      [PARENT.traceId, PARENT.spanId, 0],
    ],
  )
  const [failed, done] = spans.map(({ attributes }) => attributes)
  assert.deepEqual([failed?.['temporal.attempt'], failed?.['error.type']], [1, 'Model.Unavailable'])
  assert.deepEqual(done, {
    'temporal.workflow.id': 'train/demo-a/dapo-1/0003/task/one-wrong-line_7/ep/04',
    'temporal.run.id': 'r',
    'temporal.activity.id': '7',
    'temporal.attempt': 2,
    'longhaul.run': 'demo-a',
    'longhaul.stage': 'dapo-1',
    'longhaul.iteration': 3,
    'longhaul.taskId': 'one-wrong-line_7',
    'longhaul.index': 4,
    'longhaul.step': 2,
    'longhaul.placement': 1,
    'longhaul.episode': 'demo-a/dapo-1/0003/one-wrong-line_7/04',
    'longhaul.policy': 'v000001-0123abcd',
    'longhaul.firstTurn': 8,
    'longhaul.turns': 16,
    'longhaul.disposition': 'submitted',
  })
  assert.ok(!receiver.raw().includes('canary'))
})

test('a cancelled attempt does not count as failed', async () => {
  const [span] = await play({ body: () => Promise.reject(new CancelledFailure('a canary')) })
  assert.deepEqual([span?.status, span?.attributes['longhaul.outcome']], [0, 'cancelled'])
})

test('requests of an attempt belong to its own span', async () => {
  const asked: string[] = []
  const body = async () => void asked.push(traceHeaders().traceparent ?? 'none')
  const [span] = await play({ body })
  assert.deepEqual(asked, [`00-${PARENT.traceId}-${span?.spanId}-01`])
})

test('an activity without a trace, or with an invalid header, runs without a span', async () => {
  let ran = 0
  const body = async () => void ran++
  const odd = { [TRACE_HEADER]: { metadata: {}, data: new Uint8Array([1]) } }
  assert.deepEqual(await play({ headers: {}, body }, { headers: odd, body }), [])
  assert.equal(ran, 2)
})

test('a worker without traces accepts a traced workflow and adds nothing to activities', () => {
  const { sinks, interceptors } = tracedOptions(null)
  assert.equal(interceptors, undefined)
  assert.equal(sinks?.['longhaulTraces']?.['workflowClosed']?.callDuringReplay, false)
})
