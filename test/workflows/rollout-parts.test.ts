import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure, defaultPayloadConverter } from '@temporalio/common'
import type {
  PromptGroupInput,
  RolloutCounts,
  RolloutInput,
  RolloutReport,
} from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes } from '../support/activity-script.ts'
import { describeHistory, replayAll } from '../support/replay.ts'
import { ROLLOUT, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { buildWorkflowBundle } from '../support/workflow-bundle.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

/** Groups that one history takes when all of them begin at once. */
const AT_ONCE = 107

const SUBMITTED = { turns: 8, disposition: 'submitted' } as const

async function playWide({
  overrides,
  losesSignal,
  ...input
}: Partial<RolloutInput> & {
  overrides?: ActivityTable<AllActivities>
  losesSignal?: (workflowId: string, name: string) => boolean
}) {
  const rolloutInput: RolloutInput = { ...ROLLOUT, groupSize: 1, maxReplacements: 0, ...input }
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ steps: 1, tasks: rolloutInput.tasks }), ...overrides },
    ...(losesSignal === undefined ? {} : { losesSignal }),
  })
  return { driver, rollout: driver.start('rollout', rolloutInput, { workflowId: 'rollout' }) }
}

function partsOf(driver: WorkflowDriver) {
  return driver.runs.filter(({ type }) => type === 'rollout')
}

function groupsOf(driver: WorkflowDriver) {
  return driver.runs.filter(({ type }) => type === 'promptGroup')
}

function openGroups(driver: WorkflowDriver): number {
  return groupsOf(driver).filter(({ status }) => status === 'open').length
}

function taskAt(place: number): string {
  return `task-${String(place).padStart(4, '0')}`
}

/** Each task once, in the order of the plan, under the first part's id. */
function assertAllPlayed(driver: WorkflowDriver, tasks: number): void {
  assert.deepEqual(
    groupsOf(driver).map(({ workflowId, input }) => [workflowId, (input as PromptGroupInput).taskId]),
    Array.from({ length: tasks }, (_, place) => [`rollout/task/${taskAt(place)}`, taskAt(place)]),
  )
}

function assertShort(driver: WorkflowDriver): void {
  const events = partsOf(driver).map((part) => part.events)
  assert.ok(Math.max(...events) < 2_000, `${events.join(', ')} events`)
}

test('200 groups, sixteen at a time, keep each part below 2,000 events, leave no slot idle and are all counted', async (t) => {
  let idle = 0
  const { driver, rollout } = await playWide({
    tasks: 200,
    maxOpenGroups: 16,
    overrides: {
      advanceEpisode: ({ taskId }) => {
        const place = Number(taskId.slice(-4))
        if (place >= 16 && openGroups(driver) < 14) idle += 1
        return takes(60_000 + ((place * 7919) % 1013) * 1_000, SUBMITTED)
      },
    },
  })
  const counts = await rollout.result<RolloutCounts>()

  assert.deepEqual(counts, { groups: 200, episodes: 200, infra: 0, resolved: 200, turns: 1_600, failure: null })
  t.diagnostic(
    `${partsOf(driver)
      .map((part) => part.events)
      .join(', ')} events`,
  )
  assert.ok(partsOf(driver).length > 1 && partsOf(driver).length < 3, `${partsOf(driver).length} parts`)
  assertShort(driver)
  assertAllPlayed(driver, 200)
  assert.equal(idle, 0, 'too many slots were idle')
  const histories = partsOf(driver).map((part) => describeHistory(part.workflowId, part.history))
  assert.deepEqual(await replayAll(await buildWorkflowBundle(), histories), [])
})

test('a rollout that is wider than one history starts all of its groups at once in three parts', async (t) => {
  const tasks = 2 * AT_ONCE + 3
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    overrides: { advanceEpisode: ({ taskId }) => takes(600_000 + Number(taskId.slice(-4)) * 997, SUBMITTED) },
  })
  await driver.advance(300_000)
  assert.equal(openGroups(driver), tasks)
  const counts = await rollout.result<RolloutCounts>()

  assert.equal(counts.groups, tasks)
  assert.deepEqual(
    partsOf(driver).map(({ workflowId }) => workflowId),
    ['rollout', 'rollout/part/0002', 'rollout/part/0003'],
  )
  t.diagnostic(
    `${partsOf(driver)
      .map((part) => part.events)
      .join(', ')} events`,
  )
  assertShort(driver)
  assertAllPlayed(driver, tasks)
})

test('a group that stays open for a day delays no other group: its part waits, and later parts play', async () => {
  const { driver, rollout } = await playWide({
    tasks: AT_ONCE + 60,
    maxOpenGroups: AT_ONCE + 1,
    overrides: {
      advanceEpisode: ({ taskId }) => takes(taskId === taskAt(3) ? 24 * 3_600_000 : 60_000, SUBMITTED),
    },
  })
  await driver.advance(3_600_000)
  assert.deepEqual(
    groupsOf(driver).flatMap(({ status, workflowId }) => (status === 'open' ? [workflowId] : [])),
    [`rollout/task/${taskAt(3)}`],
  )
  // The last part counts for all, and names the group that an earlier part has open.
  const report = await driver.handle('rollout/part/0002').query<RolloutReport>('progress')
  assert.deepEqual([report.groups, report.slowest.map(({ task }) => task)], [AT_ONCE + 59, [taskAt(3)]])
  const first = await rollout.query<RolloutReport>('progress')
  assert.equal(first.continuedIn, 'rollout/part/0002')
  assert.match(await rollout.currentDetails(), /\*\*Continued\*\* in workflow `rollout\/part\/0002`/)

  assert.equal((await rollout.result<RolloutCounts>()).groups, AT_ONCE + 60)
})

// A reset of the first part to a point after the second one had begun: the server delivers the end of each group once more, and the part
// hands each on once more.
test('a group that a part hands over twice counts once, and the next part waits for the open one', async () => {
  const tasks = AT_ONCE + 40
  const lost = taskAt(3)
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: AT_ONCE + 1,
    overrides: {
      openSandbox: (input) => (input.taskId === lost ? takes(1_200_000, sandboxHandle(input)) : sandboxHandle(input)),
      advanceEpisode: ({ taskId }) => {
        if (taskId === lost) throw failureOf('Artifact.Corrupt')
        return takes(60_000, SUBMITTED)
      },
    },
  })
  await driver.advance(900_000)
  const next = driver.handle('rollout/part/0002')
  const handed = { valid: 1, episodes: 1, infra: 0, resolved: 1, turns: 8, failure: null, endings: { submitted: 1 } }
  next.signal('handed', { groups: [{ taskId: taskAt(0), ...handed }] })
  await driver.advance(60_000)
  assert.equal(partsOf(driver)[1]?.status, 'open')

  const counts = await rollout.result<RolloutCounts>()
  assert.deepEqual([counts.groups, counts.resolved, counts.infra], [tasks, tasks - 1, 1])
})

// `temporal workflow reset --reapply-exclude Signal` of a part: the server drops what the previous part had sent, and tells neither.
test('a part that lost its messages in a reset asks for the groups, and the rollout ends with all of them', async () => {
  const tasks = AT_ONCE + 20
  let isLost = true
  const asked: string[] = []
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    losesSignal: (workflowId, name) => {
      if (name === 'handAgain') asked.push(workflowId)
      return isLost && name === 'handed'
    },
    overrides: {
      advanceEpisode: ({ taskId }) => takes(taskId === taskAt(0) ? 3_600_000 : 60_000, SUBMITTED),
    },
  })
  await driver.advance(300_000)
  assert.equal(partsOf(driver).length, 2)
  assert.equal(openGroups(driver), 1)
  isLost = false
  const counts = await rollout.result<RolloutCounts>()

  assert.equal(counts.groups, tasks)
  assert.deepEqual([...new Set(asked)], ['rollout'])
  assert.ok(asked.length > 0 && asked.length < 8, `asked ${asked.length} times`)
  assert.equal(partsOf(driver).filter(({ status }) => status === 'completed').length, 2)
  const histories = partsOf(driver).map((part) => describeHistory(part.workflowId, part.history))
  assert.deepEqual(await replayAll(await buildWorkflowBundle(), histories), [])
})

// The hosts of a run are down when its root is terminated and the run is started again: every group of before closes when they are back.
test('a rollout waits fifty minutes for groups of an earlier execution, and its history stays short', async () => {
  const tasks = 16
  let isBack = false
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ steps: 1, tasks }),
      advanceEpisode: () => (isBack ? SUBMITTED : neverEnds()),
    },
  })
  const { run, stage, iteration, suite, policy, maxReplacements } = ROLLOUT
  const shared = { run, stage, iteration, policy: policy.version, suite, groupSize: 1, maxReplacements }
  const earlier = Array.from({ length: tasks / 2 }, (_, place) =>
    driver.start('promptGroup', { ...shared, taskId: taskAt(place) }, { workflowId: `rollout/task/${taskAt(place)}` }),
  )
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === tasks / 2, 'the groups of before play')
  const rollout = driver.start(
    'rollout',
    { ...ROLLOUT, groupSize: 1, tasks, maxOpenGroups: tasks },
    { workflowId: 'rollout' },
  )
  await driver.advance(50 * 60_000)
  isBack = true
  for (const group of earlier) group.terminate()
  const counts = await rollout.result<RolloutCounts>()

  assert.equal(counts.groups, tasks)
  assertShort(driver)
  assert.equal(partsOf(driver).length, 1)
})

// An operator resets a part to a point before it began the next one. The server leaves that one alone: it waits for groups that the
// execution of before had open, and keeps the id that the new execution needs.
test('an open part of a reset execution ends its groups and itself, and the rollout continues', async () => {
  const tasks = AT_ONCE + 4
  let isSlow = true
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    paused: true,
    overrides: { advanceEpisode: () => takes(isSlow ? 600_000 : 60_000, SUBMITTED) },
  })
  const part = { rollout: 'rollout', number: 2, handed: 3, slowest: [] }
  const input = { ...ROLLOUT, groupSize: 1, maxReplacements: 0, tasks, maxOpenGroups: 5, from: AT_ONCE + 1, part }
  const before = driver.start('rollout', input, { workflowId: 'rollout/part/0002' })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 2, 'the part of before plays two groups')
  isSlow = false
  rollout.signal('control', { paused: false, stopAfterIteration: null })
  await driver.advance(300_000)
  assert.equal(openGroups(driver), 2, 'groups of the earlier execution must continue')

  const counts = await rollout.result<RolloutCounts>()
  await before.result()
  assert.equal(counts.groups, tasks)
  assert.deepEqual([...new Set(driver.runs.map(({ status }) => status))], ['completed'])
})

test('a cancelled rollout closes the sandboxes of all of its parts before it ends', async () => {
  const tasks = AT_ONCE + 5
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    overrides: { advanceEpisode: () => neverEnds() },
  })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === tasks, 'all groups play')
  rollout.cancel()
  await assert.rejects(rollout.result(), CancelledFailure)

  assert.equal(driver.callsOf('closeSandbox').length, tasks)
  assert.equal(driver.callsOf('recordUngraded').length, tasks)
  assert.deepEqual([...new Set(driver.runs.map(({ status }) => status))], ['cancelled'])
})

test('a rollout whose part is terminated fails with its name, and the sandboxes of all parts are closed', async () => {
  const tasks = AT_ONCE + 2
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    overrides: { advanceEpisode: () => neverEnds() },
  })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === tasks, 'all groups play')
  driver.handle('rollout/part/0002').terminate()
  await assert.rejects(rollout.result(), /The workflow rollout\/part\/0002 was terminated/)
  await driver.runUntil(() => driver.callsOf('closeSandbox').length === tasks, 'all sandboxes are closed')

  await driver.runUntil(() => driver.runs.every(({ status }) => status !== 'open'), 'all workflows have ended')
})

for (const [where, place] of [
  ['the first part', 2],
  ['the last part', AT_ONCE + 2],
] as const) {
  test(`a configuration failure in ${where} ends all parts with its code and closes their sandboxes`, async () => {
    const tasks = AT_ONCE + 5
    const { driver, rollout } = await playWide({
      tasks,
      maxOpenGroups: tasks,
      overrides: {
        advanceEpisode: ({ taskId }) => {
          if (driver.callsOf('advanceEpisode').length < tasks || taskId !== taskAt(place)) return neverEnds()
          throw failureOf('Config.Invalid', 'a key that is wrong')
        },
        openSandbox: (input) =>
          input.taskId === taskAt(place) ? takes(60_000, sandboxHandle(input)) : sandboxHandle(input),
      },
    })
    await assert.rejects(rollout.result(), (error) => {
      assert.ok(error instanceof ApplicationFailure)
      assert.deepEqual([error.type, error.message.includes('a key that is wrong')], ['Config.Invalid', true])
      return true
    })
    assert.equal(driver.callsOf('closeSandbox').length, tasks)
    assert.deepEqual(
      driver.runs.filter(({ status }) => status === 'open').map(({ workflowId }) => workflowId),
      [],
    )
  })
}

test('a pause, a limit and a requeue reach the part that they are meant for', async () => {
  const hanging = new Set([taskAt(1), taskAt(AT_ONCE + 1)])
  let isSlow = false
  const { driver, rollout } = await playWide({
    tasks: AT_ONCE + 40,
    maxOpenGroups: AT_ONCE + 3,
    overrides: {
      advanceEpisode: ({ taskId }) => {
        if (hanging.has(taskId)) return neverEnds()
        return takes(isSlow ? 3_600_000 : 60_000, SUBMITTED)
      },
    },
  })
  const isParted = (): boolean => partsOf(driver).length === 2
  await driver.runUntil(isParted, 'the second part has begun')
  await driver.runUntil(() => groupsOf(driver).length > AT_ONCE + 3, 'it plays')
  rollout.signal('control', { paused: true, stopAfterIteration: null })
  await driver.advance(3_600_000)
  const paused = groupsOf(driver).length
  assert.equal(openGroups(driver), 2, 'open groups have ended, no other one has begun')
  await driver.advance(3_600_000)
  assert.equal(groupsOf(driver).length, paused)

  isSlow = true
  rollout.signal('control', { paused: false, stopAfterIteration: null, concurrency: 5 })
  await driver.advance(60_000)
  assert.equal(openGroups(driver), 5, 'including the two hanging groups')

  const root = driver.start('rollout', { ...ROLLOUT, tasks: 1, groupSize: 1, paused: true }, { workflowId: 'root' })
  for (const [id, task] of [...hanging, 'unknown'].entries()) {
    hanging.delete(task)
    rollout.signal('requeue', { id, task, replyTo: 'root' })
  }
  await driver.advance(60_000)
  assert.equal(groupsOf(driver).filter(({ status }) => status === 'cancelled').length, 2)
  isSlow = false
  assert.equal((await rollout.result<RolloutCounts>()).groups, AT_ONCE + 40)
  root.cancel()
})

test('the last part plays a task again whose episodes were lost in an earlier part', async () => {
  let isDown = true
  const { driver, rollout } = await playWide({
    tasks: AT_ONCE + 2,
    maxOpenGroups: AT_ONCE + 2,
    overrides: {
      advanceEpisode: ({ taskId }) => {
        if (taskId === taskAt(1) && isDown) throw failureOf('Artifact.Corrupt')
        return takes(taskId === taskAt(0) ? 7_200_000 : 60_000, SUBMITTED)
      },
    },
  })
  await driver.advance(3_600_000)
  isDown = false
  const before = groupsOf(driver).length
  rollout.signal('requeue', { id: 1, task: taskAt(1), replyTo: 'rollout' })
  await driver.advance(600_000)
  assert.equal(groupsOf(driver).length, before + 1)
  const counts = await rollout.result<RolloutCounts>()
  assert.deepEqual([counts.groups, counts.resolved, counts.infra], [AT_ONCE + 2, AT_ONCE + 2, 1])
})

test('losing every episode in the second part stops the rollout, which counts the losses of both parts', async () => {
  const tasks = AT_ONCE + 5
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    overrides: {
      openSandbox: (input) => takes(60_000, sandboxHandle(input)),
      advanceEpisode: () => {
        throw failureOf('Artifact.Corrupt')
      },
    },
  })
  await assert.rejects(rollout.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure, String(error))
    assert.deepEqual([error.type, error.message.slice(0, 17)], ['Artifact.Corrupt', 'All of the first '])
    return true
  })
  assert.equal(partsOf(driver).length, 2)
})

// The story: the signal ends the part of a rollout that was reset. A person sends it to a part of a rollout that goes on, and its
// groups so far would be taken for all of them: an evaluation of half a suite, trained on as if it were whole.
test('a rollout fails and names its second part when a person tells that part to end', async () => {
  const { driver, rollout } = await playWide({
    tasks: AT_ONCE + 40,
    maxOpenGroups: AT_ONCE,
    overrides: { advanceEpisode: () => takes(60_000, SUBMITTED) },
  })
  await driver.runUntil(() => partsOf(driver).length === 2, 'the second part')
  driver.handle('rollout/part/0002').signal('superseded')
  await assert.rejects(rollout.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure, String(error))
    assert.equal(error.type, 'Run.EndedByHand')
    assert.match(error.message, /rollout\/part\/0002 .* start the run again/)
    return true
  })
})

test('the first part ignores the signal to end for an earlier part, and every task is played', async () => {
  const { driver, rollout } = await playWide({
    tasks: 20,
    maxOpenGroups: 4,
    overrides: { advanceEpisode: () => takes(60_000, SUBMITTED) },
  })
  await driver.advance(30_000)
  rollout.signal('superseded')
  assert.equal((await rollout.result<RolloutCounts>()).groups, 20)
  assertAllPlayed(driver, 20)
})

// The story: every task has begun, and the history has no room for another group. An operator requeues a task whose episodes were lost, and
// the rollout hands it to a next part.
test('the next part plays a task again that an operator requeues when the history is full', async () => {
  const tasks = AT_ONCE - 13
  const { again, counts } = await requeueLost(tasks)
  assert.deepEqual([counts.groups, counts.resolved, counts.infra], [tasks, tasks, 1])
  assert.deepEqual(again, ['completed', 'completed'])
})

// The story: a part keeps groups back until some more have ended. One of them lost its episodes, and an operator requeues its task.
test('a task that has ended in an earlier part, which has not handed it on, is played again', async () => {
  const tasks = AT_ONCE
  const { again, counts } = await requeueLost(tasks)
  assert.deepEqual([counts.groups, counts.resolved, counts.infra], [tasks, tasks, 1])
  assert.deepEqual(again, ['completed', 'completed'])
})

test('a group that is handed on is counted before the order to play its task again, which came with it', async () => {
  const { driver } = await playWide({ tasks: 1, paused: true })
  const part = { rollout: 'rollout', number: 2, handed: 2, slowest: [] }
  const input = { ...ROLLOUT, groupSize: 1, maxReplacements: 0, tasks: 2, from: 2, part }
  const next = driver.start('rollout', input, { workflowId: 'rollout/part/0002' })
  await driver.advance(1_000)
  const lost = { valid: 0, episodes: 1, infra: 1, resolved: 0, turns: 0, failure: 'Sandbox.Lost' }
  next.signal('handed', { groups: [{ taskId: taskAt(1), ...lost }] })
  next.signal('requeue', { id: 1, task: taskAt(1), replyTo: 'rollout' })
  await driver.advance(1_000)
  next.signal('handed', { groups: [{ taskId: taskAt(0), ...lost, valid: 1, infra: 0, resolved: 1, failure: null }] })
  const counts = await next.result<RolloutCounts>()
  assert.deepEqual([counts.groups, counts.resolved, counts.infra], [2, 2, 1])
})

// A rollout carries eight incomplete groups to its next execution. It must not say of the others that all of their episodes were graded.
test('a requeue of a task that lost its episodes too long ago says so', async () => {
  const lost = new Set(Array.from({ length: 12 }, (_, place) => taskAt(place + 30)))
  const { driver, rollout } = await playWide({
    tasks: 200,
    maxOpenGroups: 16,
    overrides: {
      advanceEpisode: ({ taskId }) => {
        if (lost.has(taskId)) throw failureOf('Artifact.Corrupt')
        return takes(600_000, SUBMITTED)
      },
    },
  })
  await driver.runUntil(() => partsOf(driver).length === 2, 'the second part has begun')
  await driver.advance(600_000)
  const root = driver.start('rollout', { ...ROLLOUT, tasks: 1, groupSize: 1, paused: true }, { workflowId: 'root' })
  await driver.advance(1_000)
  rollout.signal('requeue', { id: 1, task: taskAt(30), replyTo: 'root' })
  await driver.advance(60_000)
  const { history } = driver.runs.find(({ workflowId }) => workflowId === 'root') ?? assert.fail('no root')
  const answers = history.events.flatMap(({ workflowExecutionSignaledEventAttributes: signal }) =>
    signal?.signalName === 'requeued' ? [defaultPayloadConverter.fromPayload(signal.input?.payloads?.[0] ?? {})] : [],
  )
  const note = `${taskAt(30)} has ended, with all of its episodes graded or as one of the 4 tasks with lost episodes that are too long ago to be played again`
  assert.deepEqual(answers, [{ id: 1, kind: 'unchanged', note }])
  root.cancel()
  assert.equal((await rollout.result<RolloutCounts>()).infra, 12)
})

/** Requeues the second task after its episode was lost, while all others play. */
async function requeueLost(tasks: number) {
  let isDown = true
  const { driver, rollout } = await playWide({
    tasks,
    maxOpenGroups: tasks,
    overrides: {
      advanceEpisode: ({ taskId }) => {
        if (taskId === taskAt(1) && isDown) throw failureOf('Artifact.Corrupt')
        return takes(7_200_000, SUBMITTED)
      },
    },
  })
  await driver.advance(3_600_000)
  isDown = false
  rollout.signal('requeue', { id: 1, task: taskAt(1), replyTo: 'rollout' })
  const counts = await rollout.result<RolloutCounts>()
  assert.equal(partsOf(driver).length, 2)
  const again = groupsOf(driver).filter(({ workflowId }) => workflowId.endsWith(taskAt(1)))
  return { counts, again: again.map(({ status }) => status) }
}
