/**
 * What becomes of a run after every ending of its root, for each kind of root that is not a training: an evaluation, a gate, a grading,
 * and what a schedule starts. On a real server, which alone can tell what a reset, a second start or an overlap does.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { WorkflowNotFoundError } from '@temporalio/client'
import { openGrading } from '../../src/activities/grading/open-grading.ts'
import { activity } from '../../src/activities/runtime/activity-runtime.ts'
import { createSuiteReader, createTaskReader } from '../../src/activities/runtime/stored-records.ts'
import { loadTasksAndFile } from '../../src/adapters/datasets/load-tasks.ts'
import { synthesizeSuite } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { loadRecipe } from '../../src/adapters/recipes/load-recipe.ts'
import { type LonghaulConnection, requestCancel } from '../../src/client/index.ts'
import { toOutcome } from '../../src/client/watch-run.ts'
import type { OpenGradingInput } from '../../src/contracts/activities.types.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import { createRootRegistry } from '../../src/workers/workflow-owners.ts'
import { HANG_MS } from '../support/hang.ts'
import { type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts'

const dirs = [fileURLToPath(new URL('../../recipes', import.meta.url))]

let scripted: ScriptedServer
let folder: string
let rows: string
/** What waits until a test lets it go: episodes, or gates and gradings too. */
const work: { waits: 'nothing' | 'episodes' | 'all' } = { waits: 'nothing' }
/** Runs whose work waits, once for each piece of it. */
const begun: string[] = []

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-roots-'))
  rows = join(folder, 'rows.jsonl')
  const suite = synthesizeSuite({ seed: 5, split: 'eval', count: 3, offset: 0 })
  await writeFile(rows, suite.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
  scripted = await startScriptedServer(({ store, connection }) => ({
    openGrading: activity(async (input: OpenGradingInput, { owner }) => {
      const deps = {
        store,
        loadTasks: loadTasksAndFile,
        loadRecipe: (asked: { name: string }) => loadRecipe({ ...asked, dirs }),
        tasks: createTaskReader(store),
        suites: createSuiteReader(store),
        roots: createRootRegistry(connection, 'default'),
      }
      return openGrading(deps, input, owner.ownerRun)
    }) as never,
    advanceEpisode: held('episodes', { turns: 8, disposition: 'submitted' }),
    gateTask: held('all', { done: true, ok: true }),
    gradePatch: held('all', { kind: 'resolved', reason: null }),
  }))
})

after(async () => {
  await scripted?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true, force: true })
})

function held(kind: 'episodes' | 'all', result: unknown) {
  const waits = () => work.waits === 'all' || work.waits === kind
  return activity(async ({ run }: { run: string }, { signal, beat }) => {
    if (waits()) begun.push(run)
    beat({})
    while (waits()) await sleep(50, undefined, { signal })
    return result
  }) as never
}

async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const end = Date.now() + HANG_MS; !(await condition()); await sleep(50)) assert.ok(Date.now() < end, what)
}

interface Kind {
  type: string
  prefix: string
  input: (run?: string) => object
  /** The same name with other work. */
  other: (run: string) => object
}

const named = (run: string | undefined) => (run === undefined ? {} : { run })
const KINDS: Kind[] = [
  {
    type: 'evaluate',
    prefix: 'eval',
    input: (run) => ({ recipe: 'demo', ...named(run) }),
    other: (run) => ({ recipe: 'mini', run }),
  },
  {
    type: 'gateSuite',
    prefix: 'gate',
    input: (run) => ({ recipe: 'demo', ...named(run) }),
    other: (run) => ({ recipe: 'mini', run }),
  },
  {
    type: 'gradePredictions',
    prefix: 'grade',
    input: (run) => ({ predictions: 'gold', suite: rows, recipe: 'mini', ...named(run) }),
    other: (run) => ({ predictions: 'gold', suite: rows, recipe: 'mini', overrides: { seed: 7 }, run }),
  },
]

for (const { type, prefix, input, other } of KINDS) {
  describe(type, () => {
    const start = (workflowId: string, run?: string, request: object = input(run)) =>
      scripted.server.environment.client.workflow.start(type, {
        workflowId,
        taskQueue: QUEUES.control,
        args: [request],
      })
    const outcomeOf = (workflowId: string) =>
      toOutcome(scripted.server.environment.client.workflow.getHandle(workflowId).result())
    const beganWork = (run: string) => begun.filter((one) => one === run).length
    /** Starts a run and returns when its work waits. */
    const startHeld = async (workflowId: string, run: string) => {
      work.waits = 'all'
      const before = beganWork(run)
      const handle = await start(workflowId, run)
      await until(() => beganWork(run) > before, `${workflowId} works`)
      return handle
    }
    const letGo = () => {
      work.waits = 'nothing'
    }

    // The story: an old run is continued by two people in the same second, under two ids. The server's index shows neither of them yet.
    test('two roots continue an ended run at once: one plays it, the other is refused with its name', async () => {
      const run = `${prefix}-raced`
      await (await startHeld(`first-${prefix}`, run)).terminate()
      const ids = [`left-${prefix}`, `right-${prefix}`]
      const ends = Promise.all(
        (await Promise.all(ids.map((id) => start(id, run)))).map((root) => outcomeOf(root.workflowId)),
      )
      const first = await Promise.race(ids.map(async (id) => ({ id, end: await outcomeOf(id) })))
      assert.equal(first.end.status, 'failed', JSON.stringify(first.end))
      letGo()
      const winner = ids.find((id) => id !== first.id) ?? ''
      const message = 'message' in first.end ? first.end.message : ''
      assert.ok(message.startsWith(`Run ${run} is being played by the workflow ${winner}.`), message)
      assert.deepEqual((await ends).map(({ status }) => status).toSorted(), ['completed', 'failed'])
    })

    test('it is terminated, cancelled, reset at its first event and in its middle, and after its end: each time it ends as if nothing had been', async () => {
      const run = `${prefix}-ended`
      const workflowId = `${prefix}/${run}`
      await (await startHeld(workflowId, run)).terminate()
      const again = await startHeld(workflowId, run)
      await again.cancel()
      letGo()
      assert.equal((await toOutcome(again.result())).status, 'cancelled')

      const open = await startHeld(workflowId, run)
      const { runId } = await open.describe()
      const reset = ['workflow', 'reset', '--workflow-id', workflowId, '--reason', 'test']
      await scripted.temporal(...reset, '--run-id', runId, '--type', 'FirstWorkflowTask')
      letGo()
      const afterReset = await outcomeOf(workflowId)
      assert.equal(afterReset.status, 'completed', JSON.stringify(afterReset))
      await startHeld(workflowId, run)
      await scripted.temporal(...reset, '--type', 'LastWorkflowTask')
      letGo()
      const inTheMiddle = await outcomeOf(workflowId)
      assert.deepEqual(inTheMiddle, afterReset)
      for (const where of ['LastWorkflowTask', 'FirstWorkflowTask']) {
        await scripted.temporal(...reset, '--type', where)
        assert.deepEqual(await outcomeOf(workflowId), afterReset, where)
      }
    })

    test('its id is used for other work: without a name that is another run, with its name it is refused', async () => {
      letGo()
      const run = `${prefix}-same-id`
      const workflowId = `${prefix}/${run}`
      await start(workflowId, run)
      const first = await outcomeOf(workflowId)
      const { run: _, ...unnamed } = other(run) as { run: string }
      await start(workflowId, undefined, unnamed)
      const second = await outcomeOf(workflowId)
      assert.deepEqual([first.status, second.status], ['completed', 'completed'])
      await start(workflowId, run, other(run))
      const third = await outcomeOf(workflowId)
      assert.ok('code' in third && third.code === 'Run.RecipeConflict', JSON.stringify(third))
    })
  })
}

// The story: a schedule was made in the Temporal UI, and its input names a run. Each night would continue the run of the first one.
for (const [overlap, first, second] of [
  ['ALLOW_ALL', 'completed', 'failed'],
  ['BUFFER_ONE', 'completed', 'completed'],
  ['CANCEL_OTHER', 'cancelled', 'completed'],
  ['TERMINATE_OTHER', 'terminated', 'completed'],
] as const) {
  test(`a schedule starts a named run while it is played, with ${overlap}: the first is ${first}, the second ${second}`, async () => {
    const { client } = scripted.server.environment
    const run = `night-${overlap.toLowerCase().replace('_', '-')}`
    const schedule = await client.schedule.create({
      scheduleId: run,
      spec: {},
      action: {
        type: 'startWorkflow',
        workflowType: 'evaluate',
        taskQueue: QUEUES.control,
        workflowId: run,
        args: [{ recipe: 'demo', run }],
      },
    })
    const started = async () =>
      (await schedule.describe()).info.recentActions.map(({ action }) => action.workflow.workflowId)
    work.waits = 'all'
    await schedule.trigger(overlap)
    await until(() => begun.includes(run), 'the first night plays')
    // Ids of a schedule's workflows contain the second of their start.
    await sleep(1_100)
    await schedule.trigger(overlap)
    if (overlap !== 'BUFFER_ONE') await until(async () => (await started()).length === 2, 'the second night begins')
    if (overlap === 'ALLOW_ALL') {
      const refused = await toOutcome(client.workflow.getHandle((await started())[1] ?? '').result())
      assert.match(
        'message' in refused ? refused.message : '',
        new RegExp(`^Run ${run} is being played by the workflow ${run}-`),
      )
    }
    work.waits = 'nothing'
    await until(async () => (await started()).length === 2, 'the second night begins')
    const ends = await Promise.all((await started()).map((id) => toOutcome(client.workflow.getHandle(id).result())))
    assert.deepEqual(
      ends.map(({ status }) => status),
      [first, second],
    )
    await schedule.delete()
  })
}

// The story: a person resets one workflow of a run, and stops the run later. The server sends a parent's cancellation to the execution that
// the parent started, and a reset has closed that one: its successor played on, and the parent waited for it. A root that was reset ended at
// once, because it had not come to its child again, and the child played on.
for (const type of ['evaluate', 'rollout', 'promptGroup', 'episode']) {
  test(`a run is cancelled after a ${type} of it was reset: all of its workflows end`, async () => {
    const { client, connection: grpc, address } = scripted.server.environment
    const connection = { client, connection: grpc, address, namespace: 'default' } as unknown as LonghaulConnection
    const run = `cancelled-after-${type.toLowerCase()}`
    const workflowId = `eval/${run}`
    const open = async (condition = '') => {
      const query = `WorkflowId STARTS_WITH '${workflowId}' AND ExecutionStatus = 'Running'${condition}`
      return (await Array.fromAsync(client.workflow.list({ query }))).map((info) => info.workflowId)
    }
    work.waits = 'episodes'
    const root = await client.workflow.start('evaluate', {
      workflowId,
      taskQueue: QUEUES.control,
      args: [{ recipe: 'demo', run }],
    })
    await until(() => begun.includes(run), 'it plays')
    await until(async () => (await open(` AND WorkflowType = '${type}'`)).length > 0, `a ${type} is listed`)
    const [chosen = assert.fail()] = await open(` AND WorkflowType = '${type}'`)
    const reset = ['workflow', 'reset', '--workflow-id', chosen, '--reason', 'test', '--type', 'FirstWorkflowTask']
    await scripted.temporal(...reset)
    if (type === 'evaluate') await requestCancel({ connection, workflowId })
    else await root.cancel()
    await until(async () => (await open()).length === 0, 'all of its workflows end')
    assert.equal((await toOutcome(client.workflow.getHandle(workflowId).result())).status, 'cancelled')
    work.waits = 'nothing'
  })
}

// The story: the same in a paused run, so that the workflow that was reset never comes to its children. The cancel comes from the Temporal
// UI, which knows nothing of them either: they played on, and the run was shown as cancelled.
for (const [root, prefix, type] of [
  ['evaluate', 'eval', 'evaluate'],
  ['evaluate', 'eval', 'rollout'],
  ['trainAgent', 'train', 'evaluate'],
] as const) {
  test(`${root} is paused, its ${type} is reset, and it is cancelled in Temporal: all of its workflows end, and started again it completes`, async () => {
    const { client } = scripted.server.environment
    const run = `${prefix}-paused-${type.toLowerCase()}`
    const workflowId = `${prefix}/${run}`
    const open = async (condition = '') => {
      const query = `WorkflowId STARTS_WITH '${workflowId}' AND ExecutionStatus = 'Running'${condition}`
      return (await Array.fromAsync(client.workflow.list({ query }))).map((info) => info.workflowId)
    }
    const start = () =>
      client.workflow.start(root, { workflowId, taskQueue: QUEUES.control, args: [{ recipe: 'demo', run }] })
    work.waits = 'episodes'
    await start()
    await until(async () => (await open(" AND WorkflowType = 'episode'")).length === 4, 'all episodes play')
    const handle = client.workflow.getHandle(workflowId)
    await handle.executeUpdate('pause', { args: ['soft'] })
    const [chosen = assert.fail()] = await open(` AND WorkflowType = '${type}'`)
    const reset = ['workflow', 'reset', '--workflow-id', chosen, '--reason', 'test', '--type', 'FirstWorkflowTask']
    await scripted.temporal(...reset)
    // The new execution has carried out its first task, and the pause with it.
    await client.workflow.getHandle(chosen).query('progress')
    await handle.cancel()
    assert.equal((await toOutcome(handle.result())).status, 'cancelled')
    await until(async () => (await open()).length === 0, 'nothing plays on')
    work.waits = 'nothing'
    await start()
    assert.equal((await toOutcome(client.workflow.getHandle(workflowId).result())).status, 'completed')
  })
}

/** Bytes that are no JSON, and an encoding that the SDK does not know. */
const UNREADABLE = [
  { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{"paused": tr') },
  { metadata: { encoding: Buffer.from('application/x-pickle') }, data: Buffer.from([0x80, 0x04]) },
  { metadata: null, data: Buffer.from('pause') },
]
const SIGNALS = ['control', 'requeue', 'requeued', 'report', 'alarm', 'steer', 'handed', 'arrived']

// The story: a program of another language, or a person with the wrong --input-meta, sends a signal. The SDK would fail the workflow task
// that delivers it, and the server would repeat that task for ever.
test('signals that cannot be read reach every workflow of a run, also before its first task and after its end: it ends as without them', async () => {
  const { client } = scripted.server.environment
  const { workflowService } = client.connection
  const send = (workflowId: string, signalName: string, payload: (typeof UNREADABLE)[number]) =>
    workflowService.signalWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId },
      signalName,
      input: { payloads: [payload] },
    })
  work.waits = 'episodes'
  const run = 'unreadable'
  const workflowId = `eval/${run}`
  const [first = assert.fail()] = UNREADABLE
  await workflowService.signalWithStartWorkflowExecution({
    namespace: 'default',
    workflowId,
    workflowType: { name: 'evaluate' },
    taskQueue: { name: QUEUES.control },
    input: { payloads: [{ metadata: first.metadata, data: Buffer.from(JSON.stringify({ recipe: 'demo', run })) }] },
    signalName: 'steer',
    signalInput: { payloads: [first] },
    requestId: run,
  })
  await until(() => begun.includes(run), 'it plays')
  const open = async () => {
    const ids: string[] = []
    const query = `WorkflowId STARTS_WITH '${workflowId}' AND ExecutionStatus = 'Running'`
    for await (const info of client.workflow.list({ query })) ids.push(info.workflowId)
    return ids
  }
  await until(async () => (await open()).length >= 4, 'root, rollout, group and episode are listed')
  for (const id of await open()) {
    for (const signal of SIGNALS) {
      for (const payload of UNREADABLE) await send(id, signal, payload)
    }
  }
  // Each of them has carried out a task since, or this query would fail.
  const root = client.workflow.getHandle(workflowId)
  assert.equal((await root.query<{ paused: boolean }>('progress')).paused, false)
  work.waits = 'nothing'
  const outcome = await toOutcome(root.result())
  assert.equal(outcome.status, 'completed', JSON.stringify(outcome))
  await assert.rejects(send(workflowId, 'steer', first), (error) => (error as { code?: unknown }).code === 5)
  await assert.rejects(root.executeUpdate('pause', { args: ['hard'] }), WorkflowNotFoundError)
})

test('a root is started with bytes that cannot be read: it is refused with one line', async () => {
  const { client } = scripted.server.environment
  for (const [place, payload] of UNREADABLE.entries()) {
    const workflowId = `train/unreadable-${place}`
    await client.connection.workflowService.startWorkflowExecution({
      namespace: 'default',
      workflowId,
      workflowType: { name: 'trainAgent' },
      taskQueue: { name: QUEUES.control },
      input: { payloads: [payload] },
      requestId: workflowId,
    })
    const outcome = await toOutcome(client.workflow.getHandle(workflowId).result())
    assert.ok('code' in outcome && outcome.code === 'Config.Invalid', JSON.stringify(outcome))
    assert.match(
      outcome.message,
      /^Expected trainAgent to be started with one JSON object, .* got "an input that cannot be read"/,
    )
  }
})
