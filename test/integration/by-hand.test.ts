/** What people do to a run by hand, in the Temporal UI or with the `temporal` command, where only a real server can tell what follows. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { activity } from '../../src/activities/runtime/activity-runtime.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'
import {
  findBlockers,
  findOpenWork,
  findRun,
  listRuns,
  type LonghaulConnection,
  requestCancel,
  startEvaluation,
} from '../../src/client/index.ts'
import { toOutcome } from '../../src/client/watch-run.ts'
import { type ScriptedServer, startScriptedServer } from '../support/scripted-server.ts'
import { EPISODE, HOST_QUEUE } from '../support/scripted-pipeline.ts'
import { HANG_MS } from '../support/hang.ts'

let scripted: ScriptedServer
/** Attempts at steps of episodes, in order. */
const steps: { taskId: string; attempt: number; order: number }[] = []
/** Tasks whose steps wait until they are set free. */
const held = new Set<string>()
const released: string[] = []
/** What closing a sandbox does. */
const closing = { waits: false, fails: false }

before(async () => {
  scripted = await startScriptedServer(() => ({
    releasePolicies: async (input: { run: string }) => void released.push(input.run),
    advanceEpisode: activity(async ({ taskId }: { taskId: string }, scope) => {
      steps.push({ taskId, attempt: scope.attempt, order: scope.order })
      if (taskId === 'reset-by-hand' && scope.order < 3) throw new Error('not yet')
      scope.beat({})
      while (held.has(taskId)) await sleep(100, undefined, { signal: scope.signal })
      return { turns: 8, disposition: 'submitted' }
    }) as never,
    closeSandbox: activity(async (_: unknown, scope) => {
      scope.beat({})
      while (closing.waits) await sleep(50, undefined, { signal: scope.signal })
      if (closing.fails) throw new Error('not yet')
    }) as never,
  }))
})

after(() => scripted?.[Symbol.asyncDispose]())

async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const end = Date.now() + HANG_MS; !(await condition()); await sleep(50)) assert.ok(Date.now() < end, what)
}

function stepsOf(taskId: string): number {
  return steps.filter((step) => step.taskId === taskId).length
}

test('a run is started under another id while it is played: it is refused, releases nothing, and may be taken up after the end', async () => {
  const { client } = scripted.server.environment
  held.add('task-0000')
  const start = (workflowId: string) =>
    client.workflow.start('evaluate', {
      workflowId,
      taskQueue: QUEUES.control,
      args: [{ recipe: 'demo', run: 'once' }],
    })
  const first = await start('from-the-ui')
  await until(() => stepsOf('task-0000') > 0, 'the first root plays')

  const outcome = await toOutcome((await start('eval/once')).result())
  assert.equal(outcome.status, 'failed')
  assert.match('message' in outcome ? outcome.message : '', /^Run once is being played by the workflow from-the-ui\./)
  assert.deepEqual(released, [])

  await first.terminate()
  held.clear()
  assert.equal((await toOutcome((await start('eval/once')).result())).status, 'completed')
})

test('a step is reset in its third attempt: the server counts from 1 again, and the order goes on', async () => {
  const { client } = scripted.server.environment
  const taskId = 'reset-by-hand'
  held.add(taskId)
  const args = [{ ...EPISODE, taskId }]
  const episode = await client.workflow.start('episode', { workflowId: 'ep-reset', taskQueue: QUEUES.control, args })
  await until(() => stepsOf(taskId) === 3, 'the third attempt')
  const pending = async () => (await episode.describe()).raw.pendingActivities?.[0]
  await until(async () => (await pending())?.lastHeartbeatTime !== null, 'a heartbeat')
  await sleep(2_000)
  await scripted.temporal(
    'activity',
    'reset',
    '--workflow-id',
    'ep-reset',
    '--activity-id',
    `${(await pending())?.activityId}`,
  )
  // The server gives the attempt up twenty seconds later.
  await until(() => stepsOf(taskId) === 4, 'the next attempt')
  held.clear()
  await episode.result()
  assert.deepEqual(
    steps.filter((step) => step.taskId === taskId).map(({ attempt, order }) => [attempt, order]),
    [
      [1, 1],
      [2, 2],
      [3, 3],
      [2, 4],
    ],
  )
})

// The story: a root is terminated and started again. What it had begun still closes, behind a worker that is down, and the new root waits
// for it. It is no child of that root, so the command that says what a run waits for found nothing.
test('a run waits for what an earlier execution has open: its blockers name that workflow, and what that waits for', async () => {
  const { client, connection } = scripted.server.environment
  const run = 'waits-for-before'
  const workflowId = `eval/${run}`
  const rollout = await client.workflow.start('rollout', {
    workflowId: `${workflowId}/eval-demo/0000`,
    taskQueue: 'a-queue-without-a-worker',
    args: [{}],
  })
  const root = await client.workflow.start('evaluate', {
    workflowId,
    taskQueue: QUEUES.control,
    args: [{ recipe: 'demo', run }],
  })
  const look = () =>
    findBlockers({
      connection: { client, connection, address: scripted.server.environment.address, namespace: 'default' } as never,
      workflowId,
      longerThanMs: 0,
    })
  const named = async () => {
    const { blockers, waits } = await look()
    return waits.some(({ on }) => on.name === rollout.workflowId) ? { blockers, waits } : null
  }
  await until(async () => (await named()) !== null, 'the earlier execution is named')
  const { blockers, waits } = (await named()) ?? assert.fail()
  const wait = waits.find(({ on }) => on.name === rollout.workflowId)
  assert.deepEqual([wait?.on.kind, wait?.doing], ['workflow', 'waiting for the end of an earlier execution'])
  assert.match(wait?.toDo ?? '', /temporal workflow terminate --workflow-id eval\/waits-for-before\/eval-demo\/0000/)
  // What the earlier execution waits for is found too.
  const isNamed = blockers.some(({ on }) => on.kind === 'worker' && on.name === 'a-queue-without-a-worker')
  assert.ok(isNamed, JSON.stringify(blockers))
  await root.terminate()
  await rollout.terminate()
})

// The story: an operator pauses a workflow in Temporal. Its status is no longer `Running`, and whoever took that for its end would show a
// result that is not there, start a second root, or remove the records of a run that goes on.
test('a root is paused in Temporal: it stays an open run, its blockers name the operator and the way back, and it goes on', async () => {
  const { client, connection: grpc, address } = scripted.server.environment
  const connection = { client, connection: grpc, address, namespace: 'default' } as unknown as LonghaulConnection
  const run = 'paused-in-temporal'
  held.add('task-0001')
  const before = stepsOf('task-0001')
  const root = await startEvaluation({ connection, recipe: 'demo', run })
  const { workflowId } = root
  await until(() => stepsOf('task-0001') > before, 'its first episode plays')
  await scripted.temporal('workflow', 'pause', '--workflow-id', workflowId)
  const joined = await startEvaluation({ connection, recipe: 'demo', run })
  assert.deepEqual([joined.workflowId, joined.attached], [workflowId, true])
  await until(async () => (await findRun({ connection, run })).status === 'PAUSED', 'it is paused')
  assert.equal((await findOpenWork({ connection, run }))?.workflowId, workflowId)
  await until(
    async () => (await listRuns({ connection, open: true })).some((one) => one.workflowId === workflowId),
    'it is listed',
  )
  const { blockers } = await findBlockers({ connection, workflowId, longerThanMs: 0 })
  const paused = blockers.find(({ on }) => on.kind === 'person')
  assert.equal(paused?.doing, `${workflowId}, paused`)
  assert.equal(paused?.toDo, `temporal workflow unpause --workflow-id ${workflowId}`)
  // Its episodes go on; what they report waits for it.
  held.clear()
  const watch = joined.watch({ intervalMs: 50 })
  assert.notEqual((await watch.next()).value?.kind, 'closed')
  await scripted.temporal('workflow', 'unpause', '--workflow-id', workflowId)
  assert.equal((await root.outcome()).status, 'completed')
})

// The story: an operator holds parts of a run with the server's own commands, and another one asks what the run waits for. The line
// that the blockers print is all that he has.
test('activities are paused, put off, moved to a queue of nobody, or held by a limit of a queue: the command that the blockers print cures each', async () => {
  const { client, connection: grpc, address } = scripted.server.environment
  const connection = { client, connection: grpc, address, namespace: 'default' } as unknown as LonghaulConnection
  const playing = ['paused', 'moved', 'delayed']
  const look = async (taskId: string) => {
    const { blockers } = await findBlockers({ connection, workflowId: `ep-${taskId}`, longerThanMs: 0 })
    return blockers.filter(({ for: { activity: named } }) => named === 'advanceEpisode')
  }
  /** Runs the one command that the blockers print. */
  const cure = async (taskId: string) => {
    await until(async () => (await look(taskId)).length === 1, `${taskId} is named`)
    const [blocker] = await look(taskId)
    const [, command] = /temporal (.+)$/.exec(blocker?.toDo ?? '') ?? []
    assert.ok(command !== undefined, `${taskId}: ${blocker?.toDo}`)
    const words = command.match(/"[^"]*"|\S+/g) ?? []
    await scripted.temporal(...words.map((word) => word.replaceAll('"', '')))
    return blocker
  }
  const begin = async (taskId: string) => {
    const args = [{ ...EPISODE, taskId }]
    await client.workflow.start('episode', { workflowId: `ep-${taskId}`, taskQueue: QUEUES.control, args })
  }
  const pendingId = async (taskId: string) => {
    const { raw } = await client.workflow.getHandle(`ep-${taskId}`).describe()
    return `${raw.pendingActivities?.[0]?.activityId}`
  }
  const act = async (taskId: string, verb: string, ...more: string[]) => {
    const named = ['--workflow-id', `ep-${taskId}`, '--activity-id', await pendingId(taskId)]
    await scripted.temporal('activity', verb, ...named, ...more)
  }
  const limit = (rate: string) =>
    scripted.temporal(
      ...`task-queue config set --task-queue ${HOST_QUEUE} --task-queue-type activity --queue-rps-limit ${rate}`.split(
        ' ',
      ),
    )
  for (const taskId of playing) {
    held.add(taskId)
    await begin(taskId)
    await until(() => stepsOf(taskId) === 1, `${taskId} plays`)
  }
  await act('paused', 'pause')
  const paused = await cure('paused')
  assert.equal(paused?.on.kind, 'person')

  await act('delayed', 'update-options', '--retry-initial-interval', '240h', '--retry-maximum-interval', '240h')
  await act('delayed', 'reset')
  await until(async () => (await look('delayed'))[0]?.on.kind === 'person', 'it is put off')
  await cure('delayed')
  await until(() => stepsOf('delayed') === 2, 'it goes on')

  // The CLI's own option does nothing yet.
  await client.workflowService.updateActivityOptions({
    namespace: 'default',
    execution: { workflowId: 'ep-moved' },
    id: await pendingId('moved'),
    activityOptions: { taskQueue: { name: 'nowhere' } },
    updateMask: { paths: ['task_queue.name'] },
  })
  // Its attempt runs on at the old place, and the next one waits for a worker of no kind.
  await act('moved', 'reset')
  await until(async () => (await look('moved'))[0]?.on.name === 'nowhere', 'it waits')
  const moved = await cure('moved')
  assert.equal(moved?.on.kind, 'worker')
  await until(() => stepsOf('moved') === 2, 'it is back')
  // By the command, and not by the limit of the wait for a host, which would have opened another sandbox.
  const { events } = await client.workflow.getHandle('ep-moved').fetchHistory()
  const asked = (events ?? []).flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [])
  assert.equal(asked.filter((name) => name === 'openSandbox').length, 1)

  await limit('0')
  await begin('limited')
  const limited = await cure('limited')
  assert.equal(limited?.on.kind, 'person')
  await until(() => stepsOf('limited') === 1, 'the queue goes on')

  held.clear()
  for (const taskId of [...playing, 'limited']) {
    const { disposition } = (await client.workflow.getHandle(`ep-${taskId}`).result()) as { disposition: string }
    assert.equal(disposition, 'submitted')
  }
})

// The story: an operator holds activities in Temporal, and another one stops the run. A cancelled run closes its sandboxes, which cannot be
// cancelled, so it stayed open for as long as they were held.
test('sandboxes are being closed, one paused and one put off for ten days: the blockers name both, and run stop --now ends the run', async () => {
  const { client, connection: grpc, address } = scripted.server.environment
  const connection = { client, connection: grpc, address, namespace: 'default' } as unknown as LonghaulConnection
  closing.waits = true
  const root = await startEvaluation({ connection, recipe: 'demo', run: 'held-at-its-end' })
  const { workflowId } = root
  const closingOf = async (id: string) => {
    const { raw } = await client.workflow.getHandle(id).describe()
    return raw.pendingActivities?.find(({ activityType }) => activityType?.name === 'closeSandbox')
  }
  const found: string[] = []
  await until(async () => {
    const query = `WorkflowId STARTS_WITH '${workflowId}/' AND WorkflowType = 'episode' AND ExecutionStatus = 'Running'`
    found.length = 0
    for await (const { workflowId: id } of client.workflow.list({ query })) if (await closingOf(id)) found.push(id)
    return found.length >= 2
  }, 'two sandboxes are being closed')
  const [paused = '', delayed = ''] = found
  const act = async (id: string, verb: string, ...more: string[]) => {
    const activityId = `${(await closingOf(id))?.activityId}`
    await scripted.temporal('activity', verb, '--workflow-id', id, '--activity-id', activityId, ...more)
  }
  await act(paused, 'pause')
  await act(delayed, 'update-options', ...'--retry-initial-interval 240h --retry-maximum-interval 240h'.split(' '))
  Object.assign(closing, { waits: false, fails: true })
  const named = async () => {
    const { blockers } = await findBlockers({ connection, workflowId, longerThanMs: 0 })
    return blockers.filter(({ on }) => on.kind === 'person').map(({ for: { workflowId: id } }) => id)
  }
  await until(async () => (await named()).length === 2, 'both are named')
  assert.deepEqual((await named()).toSorted(), [paused, delayed].toSorted())
  closing.fails = false
  assert.equal((await requestCancel({ connection, workflowId, dryRun: true })).note, null)
  const stopped = await requestCancel({ connection, workflowId })
  assert.equal(stopped.changed, true)
  assert.match(stopped.note ?? '', /^2 of its parts that were held in Temporal go on/)
  assert.equal((await root.outcome()).status, 'cancelled')
  assert.equal((await requestCancel({ connection, workflowId })).changed, false)
})

test('a step is completed with null, a root is started with null, signals carry nothing: nobody waits for ever', async () => {
  const { client } = scripted.server.environment
  const taskId = 'completed-by-hand'
  held.add(taskId)
  const episode = await client.workflow.start('episode', {
    workflowId: 'ep-null',
    taskQueue: QUEUES.control,
    args: [{ ...EPISODE, taskId }],
  })
  await until(() => stepsOf(taskId) === 1, 'the first step')
  const [step] = (await episode.describe()).raw.pendingActivities ?? []
  await scripted.temporal(
    'activity',
    'complete',
    '--workflow-id',
    'ep-null',
    '--activity-id',
    `${step?.activityId}`,
    '--result',
    'null',
  )
  // Not earlier: the step would end by itself before a person has ended it.
  held.clear()
  assert.equal(((await episode.result()) as { disposition: string }).disposition, 'submitted')
  assert.equal(stepsOf(taskId), 2, 'it was placed anew')

  const start = ['workflow', 'start', '--task-queue', QUEUES.control, '--type', 'trainAgent']
  await scripted.temporal(...start, '--workflow-id', 'train/null', '--input', 'null')
  const refused = await toOutcome(client.workflow.getHandle('train/null').result())
  assert.match('message' in refused ? refused.message : '', /^Expected trainAgent to be started with one JSON object/)

  held.add('task-0001')
  await scripted.temporal(...start, '--workflow-id', 'train/signalled')
  const signalled = client.workflow.getHandle('train/signalled')
  for (const name of ['report', 'alarm', 'requeued', 'steer', 'control', 'nothing']) {
    await scripted.temporal('workflow', 'signal', '--workflow-id', 'train/signalled', '--name', name)
    await scripted.temporal(
      'workflow',
      'signal',
      '--workflow-id',
      'train/signalled',
      '--name',
      name,
      '--input',
      '{"failures":[]}',
    )
  }
  held.clear()
  assert.equal((await toOutcome(signalled.result())).status, 'completed')
})
