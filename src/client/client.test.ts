/**
 * The client against a real server, in a namespace of its own: no worker but the test's serves it, so every state that a run
 * can be in is under the test's control. `npm test` starts the server; alone, name one in LONGHAUL_TEMPORAL_ADDRESS.
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { defineSearchAttributeKey } from '@temporalio/common'
import { NativeConnection, Worker } from '@temporalio/worker'
import { eventually } from '../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../test/support/own-namespace.ts'
import { isLonghaulError } from '../contracts/errors.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import { prepareNamespace } from '../stack/temporal-namespace.ts'
import { buildWorkflowBundle } from '../workers/compose-control.ts'
import { connect, type LonghaulConnection } from './connect.ts'
import {
  cancelRun,
  createSchedule,
  deleteSchedule,
  findBlockers,
  findRun,
  listSchedules,
  pauseRun,
  queryProgress,
  type RunEvent,
  type RunHandle,
  requestCancel,
  requeueTask,
  resumeRun,
  setRunLimits,
  startEvaluation,
  startGate,
  startGrading,
  startTraining,
  stopRunAfterIteration,
  triggerSchedule,
} from './index.ts'

const today = new Date().toISOString().slice(0, 10)
let connection: LonghaulConnection

before(async () => {
  if (needsServer === false) connection = await connectToOwnNamespace('client-test')
})

after(async () => {
  await connection?.close()
})

async function codeOf(failing: Promise<unknown>): Promise<string> {
  try {
    await failing
  } catch (error) {
    assert.ok(isLonghaulError(error), String(error))
    return error.code
  }
  throw new assert.AssertionError({ message: 'Expected a LonghaulError' })
}

test('a closed port fails as Temporal.Unreachable with the fix', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  await assert.rejects(connect({ address: `127.0.0.1:${port}` }), (error) => {
    assert.ok(isLonghaulError(error))
    assert.equal(error.code, 'Temporal.Unreachable')
    assert.match(error.message, /longhaul up/)
    return true
  })
})

test('refuses half a client certificate before it sends anything', async () => {
  const env = { TEMPORAL_TLS_CLIENT_CERT_PATH: '/nowhere.pem' }
  assert.equal(await codeOf(connect({ env })), 'Config.Invalid')
})

test('reports an unknown namespace as Config.NotFound', { skip: needsServer }, async () => {
  assert.equal(await codeOf(connect({ namespace: 'no-such-namespace' })), 'Config.NotFound')
})

test('unnamed runs get letters, and the same request joins the running one', { skip: needsServer }, async () => {
  const first = await startTraining({ connection, recipe: 'letters' })
  assert.deepEqual([first.workflowId, first.attached], [`train/letters-${today}-a`, false])
  const again = await startTraining({ connection, recipe: 'letters' })
  assert.deepEqual([again.workflowId, again.attached], [first.workflowId, true])
  const other = await startTraining({ connection, recipe: 'letters', overrides: { seed: 2 } })
  assert.deepEqual([other.workflowId, other.attached], [`train/letters-${today}-b`, false])
  const fresh = await startTraining({ connection, recipe: 'letters', fresh: true })
  assert.deepEqual([fresh.workflowId, fresh.attached], [`train/letters-${today}-c`, false])
})

test('concurrent equal starts give one run', { skip: needsServer }, async () => {
  const started = await Promise.all([1, 2, 3].map(() => startTraining({ connection, recipe: 'racing' })))
  assert.deepEqual([...new Set(started.map(({ workflowId }) => workflowId))], [`train/racing-${today}-a`])
  assert.equal(started.filter(({ attached }) => !attached).length, 1)
})

test('the same request joins a named run, and another one is refused', { skip: needsServer }, async () => {
  const first = await startTraining({ connection, recipe: 'named', run: 'mine' })
  assert.equal(first.workflowId, 'train/mine')
  assert.equal((await startTraining({ connection, recipe: 'named', run: 'mine' })).attached, true)
  assert.equal(await codeOf(startTraining({ connection, recipe: 'other', run: 'mine' })), 'Run.RecipeConflict')
  assert.equal(await codeOf(startTraining({ connection, recipe: 'named', run: 'mine', fresh: true })), 'Config.Invalid')
  const found = await findRun({ connection, run: 'mine' })
  assert.deepEqual([found.workflowId, found.type, found.status], ['train/mine', 'trainAgent', 'RUNNING'])
  for (const run of ['absent', '', "a'b", 'a'.repeat(1_001)]) {
    assert.equal(await codeOf(findRun({ connection, run })), 'Config.NotFound')
  }
})

test('the same request joins a run that the Temporal UI started, and another one is refused', {
  skip: needsServer,
}, async () => {
  const fromUi = (workflowId: string, input: object) =>
    connection.client.workflow.start('trainAgent', { workflowId, taskQueue: QUEUES.control, args: [input] })
  await fromUi('train/ui', { recipe: 'clicked', overrides: { seed: 2 } })
  const same = { connection, recipe: 'clicked', overrides: { seed: 2 }, run: 'ui' }
  const joined = await startTraining(same)
  assert.deepEqual([joined.workflowId, joined.attached], ['train/ui', true])
  assert.equal(await codeOf(startTraining({ ...same, overrides: { seed: 3 } })), 'Run.RecipeConflict')
  assert.equal(await codeOf(startTraining({ ...same, recipe: 'demo' })), 'Run.RecipeConflict')

  await fromUi('train/ui-empty', {})
  assert.equal((await startTraining({ connection, run: 'ui-empty' })).attached, true)
  assert.equal(await codeOf(startTraining({ connection, recipe: 'other', run: 'ui-empty' })), 'Run.RecipeConflict')

  // Pasted into the form with a comment and in another layout, it is the same recipe.
  await fromUi('train/ui-pasted', { recipe: 'pasted', recipeText: '# mine\nseed: 7\nbase: {model: m}\n' })
  const pasted = { connection, recipe: 'pasted', run: 'ui-pasted' }
  assert.equal((await startTraining({ ...pasted, recipeText: 'base:\n  model: m\nseed: 7\n' })).attached, true)
  const other = startTraining({ ...pasted, recipeText: 'base:\n  model: m\nseed: 8\n' })
  assert.equal(await codeOf(other), 'Run.RecipeConflict')

  await connection.client.workflow.start('gradePredictions', {
    workflowId: 'grade/ui',
    taskQueue: QUEUES.control,
    args: [{ regrade: 'old', opened: { run: 'ui', name: 'n', patches: 3 }, from: 2, paused: false }],
  })
  assert.equal((await startGrading({ connection, regrade: 'old', run: 'ui' })).attached, true)
})

/** The story: a click in the UI starts a root under a random id; the run then has a name, and a terminal asks for that name. */
test('a run that the Temporal UI started under another id is joined by its name', {
  skip: needsServer,
}, async () => {
  const { client, address, namespace } = connection
  await prepareNamespace({ address, namespace, raiseRetention: false })
  const start = () =>
    client.workflow.start('trainAgent', {
      workflowId: 'a-random-id',
      taskQueue: QUEUES.control,
      args: [{ recipe: 'clicked' }],
      typedSearchAttributes: [{ key: defineSearchAttributeKey('TrainRun', 'KEYWORD'), value: 'clicked-a' }],
    })
  await eventually(start)
  await eventually(async () => {
    const joined = await findRun({ connection, run: 'clicked-a' })
    assert.equal(joined.workflowId, 'a-random-id')
  })
  const joined = await startTraining({ connection, recipe: 'clicked', run: 'clicked-a' })
  assert.deepEqual([joined.workflowId, joined.attached], ['a-random-id', true])
  assert.equal(await codeOf(startTraining({ connection, recipe: 'demo', run: 'clicked-a' })), 'Run.RecipeConflict')
})

/** The story: a run is terminated, and a person starts it again in the Temporal UI, under an id of its own. Its stage of before plays on. */
test('a run that goes on under another id is found by its name, with what its earlier execution has left', {
  skip: needsServer,
}, async () => {
  const { workflow } = connection.client
  const run = { key: defineSearchAttributeKey('TrainRun', 'KEYWORD'), value: 'moved-a' }
  const common = { taskQueue: QUEUES.control, args: [{ recipe: 'moved' }], typedSearchAttributes: [run] }
  const first = await workflow.start('trainAgent', { ...common, workflowId: 'train/moved-a' })
  const left = await workflow.start('reinforce', { ...common, workflowId: 'train/moved-a/dapo-1' })
  await first.terminate()
  assert.equal((await findRun({ connection, run: 'moved-a' })).workflowId, 'train/moved-a')

  const { workflowId } = await workflow.start('trainAgent', { ...common, workflowId: 'moved-by-hand' })
  await eventually(async () => {
    assert.equal((await findRun({ connection, run: 'moved-a' })).workflowId, workflowId)
  })
  await eventually(async () => {
    const { waits } = await findBlockers({ connection, workflowId, longerThanMs: 1 })
    assert.deepEqual(
      waits.map(({ on }) => on.name),
      [left.workflowId],
    )
  })
  assert.match((await requestCancel({ connection, workflowId })).note ?? '', /^1 of its parts that a reset/)
  const { raw } = await left.describe()
  assert.equal(raw.workflowExtendedInfo?.cancelRequested, true)
})

/** The story: somebody stops a run, and a moment later the same command joins it. The user believes that the run goes on; it closes. */
test('a start within the closing of a cancelled run waits for its end and continues it', {
  skip: needsServer,
}, async () => {
  const { workflow } = connection.client
  const roots: [
    string,
    (common: { closingMs?: number; onClosing?: (id: string) => void }) => Promise<RunHandle<unknown>>,
  ][] = [
    ['train/closing', (common) => startTraining({ connection, recipe: 'closing', run: 'closing', ...common })],
    ['eval/closing', (common) => startEvaluation({ connection, recipe: 'closing', run: 'closing', ...common })],
    ['grade/closing', (common) => startGrading({ connection, regrade: 'old', run: 'closing', ...common })],
    ['gate/closing', (common) => startGate({ connection, recipe: 'closing', run: 'closing', ...common })],
  ]
  for (const [workflowId, start] of roots) {
    await start({})
    const first = await workflow.getHandle(workflowId).describe()
    // No worker serves this namespace, so the run closes for as long as the test wants.
    await cancelRun({ connection, workflowId })
    await assert.rejects(start({ closingMs: 0 }), { code: 'Run.StillClosing', message: new RegExp(`^${workflowId} `) })
    const waited: string[] = []
    const again = start({ onClosing: (id) => waited.push(id) })
    await eventually(async () => assert.deepEqual(waited, [workflowId]))
    await workflow.getHandle(workflowId, first.runId).terminate()
    assert.deepEqual([(await again).workflowId, (await again).attached], [workflowId, false])
    assert.notEqual((await workflow.getHandle(workflowId).describe()).runId, first.runId)
  }
  const another = startTraining({ connection, recipe: 'other', run: 'closing', closingMs: 0 })
  assert.equal(await codeOf(another), 'Run.RecipeConflict')
})

test('an unnamed request begins another run beside a cancelled one', { skip: needsServer }, async () => {
  const first = await startTraining({ connection, recipe: 'leaving' })
  await cancelRun({ connection, workflowId: first.workflowId })
  const second = await startTraining({ connection, recipe: 'leaving' })
  assert.deepEqual([second.workflowId, second.attached], [`train/leaving-${today}-b`, false])
  const third = await startTraining({ connection, recipe: 'leaving' })
  assert.deepEqual([third.workflowId, third.attached], [second.workflowId, true])
})

test('an evaluation has an id with the prefix eval', { skip: needsServer }, async () => {
  const { workflowId } = await startEvaluation({ connection, recipe: 'nightly', policy: 'base' })
  assert.equal(workflowId, `eval/nightly-${today}-a`)
})

test('refuses to steer a run that does not exist', { skip: needsServer }, async () => {
  assert.equal(await codeOf(pauseRun({ connection, workflowId: 'train/none' })), 'Config.NotFound')
  assert.equal(await codeOf(cancelRun({ connection, workflowId: 'train/none' })), 'Config.NotFound')
})

test('supports progress, pause, resume, stop, cancel and watching of a running run', {
  skip: needsServer,
}, async () => {
  const native = await NativeConnection.connect({ address: connection.address })
  // No activities: the run waits for its first one, which is a state like any other.
  const worker = await Worker.create({
    connection: native,
    namespace: connection.namespace,
    taskQueue: QUEUES.control,
    workflowBundle: await buildWorkflowBundle(),
  })
  const stopped = worker.run()
  try {
    const run = await startTraining({ connection, recipe: 'steered' })
    const address = { connection, workflowId: run.workflowId }
    const progress = await eventually(async () => (await queryProgress(address)) ?? assert.fail('no answer'))
    assert.deepEqual([progress.run, progress.paused], [null, false])

    const paused = await pauseRun(address)
    assert.deepEqual([paused.changed, paused.progress?.pause], [true, 'soft'])
    assert.equal((await pauseRun(address)).changed, false)
    assert.equal((await pauseRun({ ...address, mode: 'hard', dryRun: true })).changed, true)
    assert.equal((await queryProgress(address))?.pause, 'soft', 'a dry run changes nothing')
    const resumed = await resumeRun(address)
    assert.deepEqual([resumed.changed, resumed.progress?.paused], [true, false])
    assert.equal((await resumeRun(address)).changed, false)
    const limited = await setRunLimits({ ...address, concurrency: 3 })
    assert.deepEqual([limited.changed, limited.progress?.limits], [true, { concurrency: 3 }])
    assert.equal(await codeOf(setRunLimits({ ...address, concurrency: 0 })), 'Config.Invalid')
    assert.equal((await requeueTask({ ...address, task: 'none' })).changed, false)
    const stopped = await stopRunAfterIteration({ ...address, iteration: 2 })
    assert.equal(stopped.progress?.stopAfterIteration, 2)
    assert.equal(await codeOf(stopRunAfterIteration({ ...address, iteration: 0 })), 'Config.Invalid')

    const events: RunEvent<unknown>[] = []
    for await (const event of run.watch({ intervalMs: 50 })) {
      events.push(event)
      if (events.length === 1) await cancelRun(address)
    }
    assert.equal(events[0]?.kind, 'progress')
    const last = events.at(-1)
    assert.deepEqual(last?.kind === 'closed' ? last.outcome : last, { status: 'cancelled' })
  } finally {
    worker.shutdown()
    await stopped
    await native.close()
  }
})

test('a schedule is created, updated with its difference, listed, triggered and deleted', {
  skip: needsServer,
}, async () => {
  const created = await createSchedule({ connection, id: 'nightly', recipe: 'nightly' })
  assert.equal(created.kind, 'created')
  assert.equal(created.nextRuns.length, 3)
  assert.equal((await createSchedule({ connection, id: 'nightly', recipe: 'nightly' })).kind, 'unchanged')
  const updated = await createSchedule({ connection, id: 'nightly', recipe: 'nightly', cron: '0 3 * * *' })
  assert.deepEqual([updated.kind, updated.diff], ['updated', ['cron: 0 2 * * * → 0 3 * * *']])

  const { policies, spec, action } = await connection.client.schedule.getHandle('nightly').describe()
  assert.deepEqual([policies.overlap, policies.catchupWindow, spec.timezone], ['BUFFER_ONE', 6 * 3_600_000, 'UTC'])
  assert.equal(action.workflowType, 'evaluate')

  const workflowId = await triggerSchedule({ connection, id: 'nightly' })
  assert.match(workflowId ?? '', /^eval\/nightly-\d{4}-/)
  const listed = (
    await eventually(async () => {
      const all = await listSchedules({ connection })
      assert.equal(all.length, 1)
      return all
    })
  )[0]
  assert.deepEqual(
    [listed?.id, listed?.settings?.cron, listed?.recentRuns[0]?.workflowId],
    ['nightly', '0 3 * * *', workflowId],
  )

  assert.equal(await deleteSchedule({ connection, id: 'nightly' }), true)
  assert.equal(await deleteSchedule({ connection, id: 'nightly' }), false)
  assert.equal(await codeOf(triggerSchedule({ connection, id: 'nightly' })), 'Config.NotFound')
  assert.equal(await codeOf(createSchedule({ connection, id: 'x', recipe: 'y', cron: 'daily' })), 'Config.Invalid')
  assert.equal(await codeOf(createSchedule({ connection, id: 'x', recipe: 'y', timezone: 'Mars' })), 'Config.Invalid')
})

test('a schedule that is created or changed for training starts a training run of its recipe', {
  skip: needsServer,
}, async () => {
  const asked = { connection, id: 'weekly', recipe: 'demo' } as const
  await createSchedule({ ...asked, action: 'train' })
  assert.deepEqual(await startedBy('weekly'), {
    type: 'trainAgent',
    prefix: 'train/weekly',
    args: [{ recipe: 'demo' }],
  })
  assert.deepEqual((await createSchedule({ ...asked, action: 'evaluate' })).diff, ['action: train → evaluate'])
  assert.deepEqual(await startedBy('weekly'), {
    type: 'evaluate',
    prefix: 'eval/weekly',
    args: [{ recipe: 'demo', series: 'weekly' }],
  })
  assert.deepEqual((await createSchedule({ ...asked, action: 'train' })).diff, ['action: evaluate → train'])
  assert.deepEqual(await startedBy('weekly'), {
    type: 'trainAgent',
    prefix: 'train/weekly',
    args: [{ recipe: 'demo' }],
  })
  await deleteSchedule({ connection, id: 'weekly' })
})

test('refuses a request that exceeds the server’s size limit, with the reason', async () => {
  for (const bytes of [3_000_000, 5_000_000]) {
    await assert.rejects(startTraining({ connection, recipe: 'demo', recipeText: `# ${'x'.repeat(bytes)}` }), {
      code: 'Config.Invalid',
      message: /^Expected recipe and overrides of a run to have at most 2 MB, got [35]\.0 MB/,
    })
  }
})

/** Triggers it and looks at the workflow that the server started, which is ended so that the next one need not wait. */
async function startedBy(id: string): Promise<{ type: string; prefix: string; args: unknown }> {
  const schedule = connection.client.schedule.getHandle(id)
  const before = (await schedule.describe()).info.numActionsTaken
  await triggerSchedule({ connection, id })
  const workflowId = await eventually(async () => {
    const { numActionsTaken, recentActions } = (await schedule.describe()).info
    assert.equal(numActionsTaken, before + 1, 'not started yet')
    return recentActions.at(-1)?.action.workflow.workflowId ?? assert.fail('not reported yet')
  })
  const handle = connection.client.workflow.getHandle(workflowId)
  const { type } = await handle.describe()
  const { events } = await handle.fetchHistory()
  const input = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? []
  await handle.terminate('seen')
  const args = input.map(({ data }) => JSON.parse(Buffer.from(data ?? []).toString('utf8')) as unknown)
  return { type, prefix: workflowId.replace(/-\d{4}-.*$/, ''), args }
}
