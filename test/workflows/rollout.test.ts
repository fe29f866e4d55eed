import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { PromptGroupInput, RolloutCounts } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes } from '../support/activity-script.ts'
import { ROLLOUT, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

const TASKS = ROLLOUT.tasks

async function playRollout(input: {
  overrides?: ActivityTable<AllActivities>
  suggestContinueAsNewAfterEvents?: number
  rollout?: Partial<typeof ROLLOUT>
}) {
  const rolloutInput = { ...ROLLOUT, ...input.rollout }
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ steps: 1, tasks: rolloutInput.tasks }), ...input.overrides },
    ...(input.suggestContinueAsNewAfterEvents === undefined
      ? {}
      : { suggestContinueAsNewAfterEvents: input.suggestContinueAsNewAfterEvents }),
  })
  return { driver, rollout: driver.start('rollout', rolloutInput, { workflowId: 'rollout' }) }
}

function groupsOf(driver: WorkflowDriver): string[] {
  return driver.runs.filter(({ type }) => type === 'promptGroup').map(({ input }) => (input as PromptGroupInput).taskId)
}

function openGroups(driver: WorkflowDriver): number {
  return driver.runs.filter(({ type, status }) => type === 'promptGroup' && status === 'open').length
}

test('a rollout plays every task of its plan once, in order, with a bounded number of open groups', async () => {
  let most = 0
  const { driver, rollout } = await playRollout({
    overrides: {
      advanceEpisode: () => {
        most = Math.max(most, openGroups(driver))
        return { turns: 8, disposition: 'submitted' }
      },
    },
  })
  const counts = await rollout.result<RolloutCounts>()

  assert.equal(most, ROLLOUT.maxOpenGroups)
  assert.deepEqual(
    groupsOf(driver),
    Array.from({ length: TASKS }, (_, place) => `task-${String(place).padStart(4, '0')}`),
  )
  // Two episodes a group, index 0 resolves: 12 × 1 resolved, 24 × 8 turns.
  assert.deepEqual(counts, { groups: 12, episodes: 24, infra: 0, resolved: 12, turns: 192, failure: null })
})

test('steps of many episodes at once have longer heartbeats, all other activities have those of their presets', async () => {
  const heartbeatsWith = async (groupSize: number): Promise<Record<string, number>> => {
    const { driver, rollout } = await playRollout({ rollout: { tasks: 1, groupSize } })
    await rollout.result<RolloutCounts>()
    const events = driver.runs.find(({ type }) => type === 'episode')?.history.events ?? []
    const scheduled = events.flatMap(({ activityTaskScheduledEventAttributes: one }) => one ?? [])
    return Object.fromEntries(
      scheduled.map(({ activityType, heartbeatTimeout }) => [activityType?.name, Number(heartbeatTimeout?.seconds)]),
    )
  }
  const few = await heartbeatsWith(2)
  assert.equal(few['advanceEpisode'], 20)
  assert.deepEqual(await heartbeatsWith(350), { ...few, advanceEpisode: 21 })
})

/** The story: a thousand episodes begin at once, and an operator asks the rollout how far it is. */
test('groups have a lower priority than their rollout, and activities of episodes do not inherit it', async () => {
  const { driver, rollout } = await playRollout({ rollout: { tasks: 1 } })
  await rollout.result<RolloutCounts>()

  const keysOf = (type: string): Record<string, number | undefined> => {
    const run = driver.runs.find((one) => one.type === type)
    const events = run?.history.events ?? []
    const children = events.flatMap(({ startChildWorkflowExecutionInitiatedEventAttributes: child }) =>
      child ? [[child.workflowType?.name ?? '', child.priority?.priorityKey ?? undefined] as const] : [],
    )
    const activities = events.flatMap(({ activityTaskScheduledEventAttributes: activity }) =>
      activity ? [[activity.activityType?.name ?? '', activity.priority?.priorityKey ?? undefined] as const] : [],
    )
    return Object.fromEntries([...children, ...activities])
  }
  // The server's default is 3; a lower key goes first. What states none inherits that of its parent.
  assert.deepEqual(keysOf('rollout'), { readPlanPage: 3, promptGroup: 4 })
  assert.deepEqual(keysOf('promptGroup'), { episode: undefined })
  const { gradeSubmission, ...own } = keysOf('episode')
  assert.equal(gradeSubmission, 3)
  // These have queues that episodes share with no other work.
  assert.deepEqual(Object.keys(own).sort(), ['advanceEpisode', 'captureSubmission', 'closeSandbox', 'openSandbox'])
})

test('a plan of several pages is read without a gap or a repetition', async () => {
  const { driver, rollout } = await playRollout({ rollout: { tasks: 103, groupSize: 1, maxOpenGroups: 7 } })
  const counts = await rollout.result<RolloutCounts>()

  assert.equal(counts.groups, 103)
  assert.equal(new Set(groupsOf(driver)).size, 103)
  assert.deepEqual(
    driver.callsOf('readPlanPage').map(({ input }) => (input as { from: number }).from),
    [0, 50, 100],
  )
})

test('a plan that ends too early fails the rollout with the place instead of an endless read', async () => {
  const { driver, rollout } = await playRollout({
    rollout: { tasks: 60, maxOpenGroups: 7 },
    overrides: { readPlanPage: ({ from }) => (from === 0 ? ['task-0000', 'task-0001'] : []) },
  })
  await assert.rejects(rollout.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure, String(error))
    assert.deepEqual(
      [error.type, error.message.includes('60 tasks'), error.message.includes('2')],
      ['Artifact.Corrupt', true, true],
    )
    return true
  })
  assert.equal(driver.callsOf('readPlanPage').length, 2)
})

test('continue-as-new near the history limit leaves no child open and keeps the counts', async () => {
  const { driver, rollout } = await playRollout({ suggestContinueAsNewAfterEvents: 60 })
  const counts = await rollout.result<RolloutCounts>()

  const runs = driver.runs.filter(({ type }) => type === 'rollout')
  assert.ok(runs.length > 1, 'it continued')
  assert.deepEqual(runs.map(({ status }) => status).slice(0, -1), Array(runs.length - 1).fill('continued-as-new'))
  assert.deepEqual(counts, { groups: 12, episodes: 24, infra: 0, resolved: 12, turns: 192, failure: null })
  assert.equal(groupsOf(driver).length, TASKS)
  assert.equal(new Set(groupsOf(driver)).size, TASKS)
  assert.ok(
    driver.runs.every(({ type, status }) => type === 'rollout' || status === 'completed'),
    'no child was terminated',
  )
})

test('a paused rollout finishes its open groups, starts no other, and continues after resume', async () => {
  let isPaused = false
  const { driver, rollout } = await playRollout({
    overrides: {
      advanceEpisode: () => {
        if (!isPaused) rollout.signal('control', { paused: true, stopAfterIteration: null })
        isPaused = true
        return { turns: 8, disposition: 'submitted' }
      },
    },
  })
  await driver.runUntil(() => isPaused && openGroups(driver) === 0, 'every open group finished')
  await driver.advance(3_600_000)
  assert.equal(groupsOf(driver).length, ROLLOUT.maxOpenGroups)
  assert.match(await rollout.currentDetails(), /Paused/)

  rollout.signal('control', { paused: false, stopAfterIteration: null })
  const counts = await rollout.result<RolloutCounts>()
  assert.equal(counts.groups, TASKS)
})
// The story: a rollout reads its first tasks, or a store that is away keeps it waiting for them. An operator pauses the run.
test('a pause that comes while the plan is read starts no group until it ends', async () => {
  const plan = Array.from({ length: TASKS }, (_, place) => `task-${String(place).padStart(4, '0')}`)
  const { driver, rollout } = await playRollout({ overrides: { readPlanPage: () => takes(60_000, plan) } })
  await driver.advance(1_000)
  rollout.signal('control', { paused: true, hard: true, stopAfterIteration: null })
  await driver.advance(3_600_000)
  assert.deepEqual(groupsOf(driver), [])

  rollout.signal('control', { paused: false, stopAfterIteration: null })
  assert.equal((await rollout.result<RolloutCounts>()).groups, TASKS)
  assert.deepEqual(groupsOf(driver), plan)
})

test('a pause survives continue-as-new', async () => {
  const { driver, rollout } = await playRollout({
    suggestContinueAsNewAfterEvents: 20,
    overrides: {
      advanceEpisode: () => {
        if (driver.callsOf('advanceEpisode').length === 1) {
          rollout.signal('control', { paused: true, stopAfterIteration: null })
        }
        return { turns: 8, disposition: 'submitted' }
      },
    },
  })
  await driver.runUntil(() => openGroups(driver) === 0 && groupsOf(driver).length > 0, 'every open group finished')
  await driver.advance(60_000)
  const before = groupsOf(driver).length
  await driver.advance(3_600_000)
  assert.equal(groupsOf(driver).length, before)

  rollout.signal('control', { paused: false, stopAfterIteration: null })
  const counts = await rollout.result<RolloutCounts>()
  assert.equal(counts.groups, TASKS)
  assert.equal(new Set(groupsOf(driver)).size, TASKS)
})

test('a rollout stops with the code when none of its first episodes survives', async () => {
  const { driver, rollout } = await playRollout({
    overrides: {
      advanceEpisode: () => {
        throw failureOf('Artifact.Corrupt')
      },
    },
  })
  await assert.rejects(rollout.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Artifact.Corrupt')
    return true
  })
  assert.ok(groupsOf(driver).length < TASKS, 'the rollout must stop before it loses the whole plan')
})

test('a cancelled rollout leaves no open child and no open sandbox', async () => {
  const { driver, rollout } = await playRollout({ overrides: { advanceEpisode: () => neverEnds() } })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 6, 'three groups of two')
  rollout.cancel()
  await assert.rejects(rollout.result(), CancelledFailure)

  // At once, not later: who sees a run closed may read its records.
  assert.equal(driver.callsOf('closeSandbox').length, 6)
  assert.equal(driver.callsOf('recordUngraded').length, 6)
  assert.deepEqual(
    driver.runs.filter(({ status }) => status !== 'cancelled').map(({ workflowId }) => workflowId),
    [],
  )
})
