import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, test } from 'node:test'
import { useEnvironment } from '../../test/support/environment.ts'
import { startOtlpReceiver } from '../../test/support/otlp-receiver.ts'
import { noteOnSpan, runInSpan, traceHeaders, traceVariables } from './current-trace.ts'
import { openTraces, readTraceSettings } from './traces.ts'

const RATIO = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318/', OTEL_TRACES_SAMPLER: 'traceidratio' }

test('traces are off until a collector is configured, and can be turned off by variables', () => {
  const on = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }
  assert.equal(readTraceSettings({}), null)
  assert.equal(readTraceSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: '' }), null)
  assert.equal(readTraceSettings({ ...on, OTEL_SDK_DISABLED: 'true' }), null)
  assert.equal(readTraceSettings({ ...on, OTEL_TRACES_EXPORTER: 'none' }), null)
  assert.equal(readTraceSettings(on)?.url.href, 'http://collector:4318/v1/traces')
})

test('the address for traces is used unchanged and overrides the shared one', () => {
  const settings = readTraceSettings({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318',
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://traces.example.org/api/otel',
  })
  assert.deepEqual([settings?.url.href, settings?.ratio], ['https://traces.example.org/api/otel', 1])
})

test('the share of runs that start a trace equals that of the sampler', () => {
  assert.equal(readTraceSettings({ ...RATIO, OTEL_TRACES_SAMPLER_ARG: '0.25' })?.ratio, 0.25)
  assert.equal(readTraceSettings({ ...RATIO, OTEL_TRACES_SAMPLER: 'parentbased_always_off' })?.ratio, 0)
})

test('names an unusable setting, without a value that may be secret', () => {
  assert.throws(() => readTraceSettings({ OTEL_EXPORTER_OTLP_ENDPOINT: 'user:secret@collector' }), {
    code: 'Config.Invalid',
    message: 'Expected OTEL_EXPORTER_OTLP_ENDPOINT to be an http(s) address',
  })
  assert.throws(() => readTraceSettings({ ...RATIO, OTEL_TRACES_SAMPLER_ARG: '2' }), /OTEL_TRACES_SAMPLER_ARG/)
  assert.throws(() => readTraceSettings({ ...RATIO, OTEL_TRACES_SAMPLER: 'jaeger_remote' }), /jaeger_remote/)
  assert.throws(
    () => readTraceSettings({ ...RATIO, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }),
    /http\/json or http\/protobuf/,
  )
})

test('loads no package of OpenTelemetry while traces are off', () => {
  const program = `import { openTraces } from './traces.ts'
    const traces = await openTraces('control', { env: {}, warn: console.error })
    const loaded = Object.keys((await import('node:module')).createRequire(import.meta.url).cache).filter((file) => file.includes('opentelemetry'))
    console.log(JSON.stringify({ traces, loaded }))`
  const { stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: import.meta.dirname,
    encoding: 'utf8',
    timeout: 60_000,
  })
  assert.equal(stdout.trim(), '{"traces":null,"loaded":[]}', stderr)
})

test('a span reaches the collector with its ids, service and code, but without text', async (t) => {
  const receiver = await startOtlpReceiver()
  after(() => receiver.close())
  useEnvironment(t, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url })
  const traces = await openTraces('sandbox', { warn: assert.fail })
  assert.ok(traces !== null)
  const parent = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
  const span = traces.startSpan({
    name: 'RunActivity:advanceEpisode',
    kind: 'server',
    parent,
    attributes: {
      'longhaul.episode': 'demo/dapo/0003/one-wrong-line_7/04',
      prompt: 'rm -rf the canary\n',
      nothing: null,
    },
  })
  span.end({ attributes: { 'longhaul.turns': 8, output: 'canary text' }, code: 'Model.Unavailable' })
  const unsampled = traces.startSpan({
    name: 'x',
    kind: 'server',
    parent: { ...parent, sampled: false },
    attributes: {},
  })
  unsampled.end()
  await traces.close(10_000)

  const [sent, ...others] = receiver.spans
  assert.deepEqual(others, [])
  assert.deepEqual(
    [sent?.name, sent?.traceId, sent?.parentSpanId, sent?.status],
    ['RunActivity:advanceEpisode', parent.traceId, parent.spanId, 2],
  )
  assert.equal(sent?.spanId, span.context.spanId)
  assert.deepEqual([sent?.service, sent?.resource['longhaul.role']], ['longhaul-sandbox', 'sandbox'])
  assert.deepEqual(sent?.attributes, {
    'longhaul.episode': 'demo/dapo/0003/one-wrong-line_7/04',
    'longhaul.turns': 8,
    'error.type': 'Model.Unavailable',
  })
  assert.ok(!receiver.raw().includes('canary'))
})

test('a span with given ids keeps them, and the next one gets its own', async (t) => {
  const receiver = await startOtlpReceiver()
  after(() => receiver.close())
  useEnvironment(t, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url })
  const traces = await openTraces('control', { warn: assert.fail })
  const ids = { traceId: '12'.repeat(16), spanId: '34'.repeat(8) }
  traces
    ?.startSpan({ name: 'one', kind: 'server', parent: null, ids, startMs: 1_000, attributes: {} })
    .end({ endMs: 3_000 })
  traces?.startSpan({ name: 'two', kind: 'server', parent: null, attributes: {} }).end()
  await traces?.close(10_000)
  const [one, two] = receiver.spans
  assert.deepEqual([one?.traceId, one?.spanId, one?.durationMs], [ids.traceId, ids.spanId, 2_000])
  assert.notEqual(two?.spanId, ids.spanId)
})

for (const habit of ['hangs', 'fails'] as const) {
  test(`a collector that ${habit} gives one log line, holds back no span and is waited for within the limit`, async (t) => {
    const receiver = await startOtlpReceiver(habit)
    after(() => receiver.close())
    useEnvironment(t, {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_BSP_SCHEDULE_DELAY: '20',
      OTEL_EXPORTER_OTLP_TIMEOUT: '200',
    })
    const lines: string[] = []
    const { promise: warned, resolve } = Promise.withResolvers<void>()
    const warn = (line: string): void => {
      lines.push(line)
      resolve()
    }
    const traces = await openTraces('control', { warn })
    // Four times what the queue holds: what does not fit is dropped, and no call waits.
    const startSpans = (): void => {
      for (let i = 0; i < 8_192; i++) {
        traces?.startSpan({ name: 'x', kind: 'server', parent: null, attributes: { i } }).end()
      }
    }
    startSpans()
    await warned
    startSpans()
    while (receiver.requests() < 3) await new Promise((resume) => setTimeout(resume, 20))
    await traces?.close(500)
    assert.deepEqual(receiver.spans, [])
    assert.equal(lines.length, 1, lines.join('\n'))
    const reason = habit === 'fails' ? 'answers with status 500' : 'does not take them in time'
    assert.equal(
      lines[0],
      `no traces: the collector at ${receiver.url}/v1/traces ${reason}; runs go on, their spans are lost`,
    )
  })
}

test('requests within a span carry it, and requests outside of one carry nothing', async () => {
  const context = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
  const noted: object[] = []
  assert.deepEqual([traceHeaders(), traceVariables()], [{}, {}])
  await runInSpan({ context, note: (attributes) => noted.push(attributes) }, async () => {
    await Promise.resolve()
    const traceparent = `00-${context.traceId}-${context.spanId}-01`
    assert.deepEqual([traceHeaders(), traceVariables()], [{ traceparent }, { TRACEPARENT: traceparent }])
    noteOnSpan({ 'longhaul.firstTurn': 8 })
  })
  assert.deepEqual(noted, [{ 'longhaul.firstTurn': 8 }])
})
