/**
 * The trace of a run in its histories: from the start to every activity and child, through continue-as-new, and with no effect on what
 * a workflow does.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, defaultPayloadConverter } from '@temporalio/common'
import {
  formatTraceparent,
  parseTraceparent,
  spanIdOfRun,
  TRACE_HEADER,
  type TraceCarrier,
  type TraceContext,
  traceIdOfRun,
  type WorkflowSpan,
} from '../../src/contracts/trace-context.ts'
import { withTraces } from '../../src/workers/compose-control.ts'
import { describeHistory, type RecordedHistory, readHistories, replayAll } from '../support/replay.ts'
import { EPISODE, PLAN, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { buildWorkflowBundle, type WorkflowBundle } from '../support/workflow-bundle.ts'
import { createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

const CLIENT: TraceContext = { traceId: 'ab'.repeat(16), spanId: 'cd'.repeat(8), sampled: true }
const HEADERS = headersOf(CLIENT)
const SUITE = { suite: SHA, name: 'train', tasks: 40 }

type Run = WorkflowDriver['runs'][number]
type Fields = Record<string, Parameters<typeof defaultPayloadConverter.fromPayload>[0]>

function headersOf(context: TraceContext) {
  return { [TRACE_HEADER]: defaultPayloadConverter.toPayload({ traceparent: formatTraceparent(context) }) }
}

function contextIn(fields: Fields | null | undefined): TraceContext | null {
  const payload = fields?.[TRACE_HEADER]
  if (payload === undefined) return null
  return parseTraceparent(defaultPayloadConverter.fromPayload<TraceCarrier>(payload).traceparent)
}

/** Of every activity that a run has scheduled. */
function activityContexts({ history }: Run): (TraceContext | null)[] {
  return history.events.flatMap(({ activityTaskScheduledEventAttributes: scheduled }) =>
    scheduled ? [contextIn(scheduled.header?.fields as Fields)] : [],
  )
}

function startContext({ history }: Run): TraceContext | null {
  return contextIn(history.events[0]?.workflowExecutionStartedEventAttributes?.header?.fields)
}

function spansOf({ sinkCalls }: Run): WorkflowSpan[] {
  const spans = sinkCalls.filter(({ ifaceName }) => ifaceName === 'longhaulTraces').map(({ args }) => args[0])
  // Out of the isolate, whose objects have other prototypes.
  return structuredClone(spans) as WorkflowSpan[]
}

/** The bundle of a worker that exports spans. */
async function switchedOn(ratio = 1): Promise<WorkflowBundle> {
  const bundle = withTraces(await buildWorkflowBundle(), { url: new URL('http://collector/'), ratio })
  assert.ok('code' in bundle)
  assert.equal(
    bundle.code.length,
    (await buildWorkflowBundle()).code.length,
    'another length makes the source map wrong',
  )
  return bundle
}

async function evaluated(headers: typeof HEADERS | undefined, bundle?: WorkflowBundle): Promise<WorkflowDriver> {
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ tasks: 2 }),
    ...(bundle === undefined ? {} : { bundle }),
  })
  await driver.start('evaluate', { recipe: 'nightly' }, { headers: headers ?? {} }).result()
  return driver
}

test('a run that is started within a trace passes it to every child and activity', async () => {
  const { runs } = await evaluated(HEADERS)

  const byId = new Map(runs.map((run) => [run.workflowId, run]))
  assert.ok(['evaluate', 'rollout', 'promptGroup', 'episode'].every((type) => runs.some((run) => run.type === type)))
  for (const run of runs) {
    const own = { traceId: CLIENT.traceId, spanId: spanIdOfRun(run.runId), sampled: true }
    const contexts = activityContexts(run)
    assert.deepEqual(
      contexts,
      contexts.map(() => own),
    )
    const started = run.history.events[0]?.workflowExecutionStartedEventAttributes
    const parent = byId.get(started?.parentWorkflowExecution?.workflowId ?? '')
    const above = parent === undefined ? CLIENT : { ...own, spanId: spanIdOfRun(parent.runId) }
    assert.deepEqual(startContext(run), above, run.workflowId)
    const [span, ...more] = spansOf(run)
    assert.equal(more.length, 0)
    assert.deepEqual(
      [span?.span, span?.parentSpanId, span?.outcome, span?.code],
      [own, above.spanId, 'completed', null],
    )
    assert.ok(span !== undefined && span.endMs >= span.startMs)
  }
})

test('a run without a trace on workers without traces has no header and reports no span', async () => {
  const { runs } = await evaluated(undefined)
  for (const run of runs) {
    const contexts = [startContext(run), ...activityContexts(run)]
    assert.deepEqual(
      contexts.filter((context) => context !== null),
      [],
    )
    assert.deepEqual(run.sinkCalls, [])
  }
})

test('a run keeps its trace and its parent span after continue-as-new', async () => {
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ tasks: SUITE.tasks }),
    suggestContinueAsNewAfterEvents: 120,
  })
  await driver.start('gateTasks', { plan: PLAN, suite: SUITE }, { headers: HEADERS }).result()
  const { runs } = driver
  assert.ok(runs.length > 1, 'it did not continue as new')
  for (const [place, run] of runs.entries()) {
    assert.deepEqual(startContext(run), CLIENT)
    assert.ok(activityContexts(run).every((context) => context?.spanId === spanIdOfRun(run.runId)))
    const outcome = place === runs.length - 1 ? 'completed' : 'continued-as-new'
    assert.deepEqual([spansOf(run)[0]?.parentSpanId, spansOf(run)[0]?.outcome], [CLIENT.spanId, outcome])
  }
})

test('a root of a schedule starts a trace derived from its run id on workers that export traces', async () => {
  const { runs } = await evaluated(undefined, await switchedOn())
  const root = runs.find(({ type }) => type === 'evaluate')
  const traceId = traceIdOfRun(root?.runId ?? '')
  assert.deepEqual(root && spansOf(root)[0]?.parentSpanId, null)
  for (const run of runs) {
    assert.deepEqual(spansOf(run)[0]?.span, { traceId, spanId: spanIdOfRun(run.runId), sampled: true })
  }
  const unsampled = await evaluated(undefined, await switchedOn(0))
  assert.ok(unsampled.runs.every((run) => spansOf(run).every(({ span }) => !span.sampled)))
})

test('an episode whose parent has no trace starts none, because only roots do', async () => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline(), bundle: await switchedOn() })
  await driver.start('episode', EPISODE).result()
  assert.deepEqual(
    driver.runs.flatMap(activityContexts).filter((context) => context !== null),
    [],
  )
})

test('a failed run reports the innermost code and no message', async () => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline(),
      resolveRecipe: () => {
        throw ApplicationFailure.nonRetryable('a canary of a recipe', 'Config.Invalid')
      },
    },
  })
  await assert.rejects(driver.start('evaluate', { recipe: 'nightly' }, { headers: HEADERS }).result())
  const [span] = driver.runs.flatMap(spansOf)
  assert.deepEqual([span?.outcome, span?.code], ['failed', 'Config.Invalid'])
  assert.ok(!JSON.stringify(span).includes('canary'))
})

test('an invalid trace header is left alone', async () => {
  const headers = { [TRACE_HEADER]: defaultPayloadConverter.toPayload({ traceparent: 'no trace' }) }
  const { runs } = await evaluated(headers)
  assert.ok(runs.every((run) => run.sinkCalls.length === 0))
})

function historiesOf({ runs }: WorkflowDriver): RecordedHistory[] {
  return runs.map(({ workflowId, history }) => describeHistory(workflowId, history))
}

test('recorded, traced and untraced histories replay on workers with and without traces', async () => {
  const recorded = readHistories()
  assert.ok(recorded.length > 0)
  const traced = historiesOf(await evaluated(HEADERS))
  const begunByItself = historiesOf(await evaluated(undefined, await switchedOn()))
  const without = historiesOf(await evaluated(undefined))

  assert.deepEqual(await replayAll(await switchedOn(), [...recorded, ...traced, ...begunByItself, ...without]), [])
  assert.deepEqual(await replayAll(await buildWorkflowBundle(), [...traced, ...begunByItself]), [])
})
