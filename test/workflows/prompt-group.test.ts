import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { EpisodeInput, PromptGroupResult } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes } from '../support/activity-script.ts'
import { GROUP, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

async function playGroup(overrides: ActivityTable<AllActivities>, input = GROUP) {
  const driver = await createWorkflowDriver({ activities: { ...scriptedPipeline({ steps: 1 }), ...overrides } })
  return { driver, group: driver.start('promptGroup', input, { workflowId: 'group' }) }
}

function episodesOf(driver: WorkflowDriver): EpisodeInput[] {
  return driver.runs.filter(({ type }) => type === 'episode').map(({ input }) => input as EpisodeInput)
}

test('a group plays its episodes concurrently under indices from 0', async () => {
  const { driver, group } = await playGroup({})
  await driver.runUntil(() => driver.callsOf('openSandbox').length === 4, 'four open sandboxes')
  assert.equal(driver.callsOf('advanceEpisode').length, 0)
  const result = await group.result<PromptGroupResult>()

  assert.deepEqual(result, {
    taskId: GROUP.taskId,
    valid: 4,
    episodes: 4,
    infra: 0,
    resolved: 2,
    turns: 32,
    failure: null,
    endings: { submitted: 4 },
  })
  assert.deepEqual(
    episodesOf(driver).map(({ index }) => index),
    [0, 1, 2, 3],
  )
  assert.deepEqual(
    driver.runs.filter(({ type }) => type === 'episode').map(({ workflowId }) => workflowId),
    ['group/ep/00', 'group/ep/01', 'group/ep/02', 'group/ep/03'],
  )
})

test('an infra episode is replaced under the next free index and is left out of the mean', async () => {
  const { driver, group } = await playGroup({
    advanceEpisode: ({ index }) => {
      if (index === 1) throw failureOf('Artifact.Conflict')
      return { turns: 16, disposition: 'submitted' }
    },
  })
  const result = await group.result<PromptGroupResult>()

  assert.deepEqual(
    episodesOf(driver).map(({ index }) => index),
    [0, 1, 2, 3, 4],
  )
  // Graded: 0, 2, 3, 4; resolved where the index is even. 4 episodes × 8 turns; the infra one adds none.
  assert.deepEqual(result, {
    taskId: GROUP.taskId,
    valid: 4,
    episodes: 5,
    infra: 1,
    resolved: 3,
    turns: 32,
    failure: 'Artifact.Conflict',
    endings: { submitted: 4, infra: 1 },
  })
  assert.equal(driver.callsOf('gradeSubmission').length, 4)
})

test('an episode that could not be graded is replaced like an infra one', async () => {
  const { group } = await playGroup({
    gradeSubmission: (input) => ({
      episode: `e${input.index}`,
      disposition: input.disposition,
      verdict: input.index === 0 ? 'could-not-grade' : 'resolved',
      turns: 8,
      failure: null,
    }),
  })
  const result = await group.result<PromptGroupResult>()

  assert.deepEqual(result, {
    taskId: GROUP.taskId,
    valid: 4,
    episodes: 5,
    infra: 1,
    resolved: 4,
    turns: 32,
    failure: null,
    endings: { submitted: 4, 'could-not-grade': 1 },
  })
})

test('a group with too many lost episodes stays short at the bound of its replacements', async () => {
  const { driver, group } = await playGroup({
    advanceEpisode: ({ index }) => {
      if (index > 0) throw failureOf('Artifact.Conflict')
      return { turns: 8, disposition: 'submitted' }
    },
  })
  const result = await group.result<PromptGroupResult>()

  assert.equal(result.valid, 1)
  assert.equal(result.episodes, GROUP.groupSize + GROUP.maxReplacements)
  assert.equal(result.infra, GROUP.groupSize + GROUP.maxReplacements - 1)
  assert.equal(new Set(episodesOf(driver).map(({ index }) => index)).size, result.episodes)
})

test("a failure of the user's configuration in one episode fails the group and closes every sandbox", async () => {
  const { driver, group } = await playGroup({
    advanceEpisode: ({ index }) => {
      if (index === 2) throw failureOf('Model.NoTokenIds')
      return neverEnds()
    },
  })
  await assert.rejects(group.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Model.NoTokenIds')
    return true
  })
  await driver.runToIdle()

  assert.equal(driver.callsOf('closeSandbox').length, 4)
  assert.ok(driver.runs.every(({ status }) => status !== 'open'))
})

test('a cancelled group cancels its episodes, and each closes its sandbox', async () => {
  const { driver, group } = await playGroup({ advanceEpisode: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 4)
  group.cancel()
  await assert.rejects(group.result(), CancelledFailure)
  await driver.runToIdle()

  assert.equal(driver.callsOf('closeSandbox').length, 4)
  assert.deepEqual(
    driver.runs.map(({ status }) => status),
    ['cancelled', 'cancelled', 'cancelled', 'cancelled', 'cancelled'],
  )
})

// The story: one episode hangs, and a person ends its workflow in the Temporal UI. The days of the run before are not to be lost.
for (const [how, indices] of [
  ['terminate', [0, 1, 2, 3, 1]],
  ['cancel', [0, 1, 2, 3, 4]],
] as const) {
  test(`an episode that a person ends by ${how} does not stop the others; ${how === 'cancel' ? 'another takes its place' : 'it continues from its records'}`, async () => {
    let isHanging = true
    const { driver, group } = await playGroup(
      {
        advanceEpisode: ({ index }) =>
          index === 1 && isHanging ? neverEnds() : { turns: 16, disposition: 'submitted' },
        recordUngraded: ({ index, disposition, failure }) => ({
          episode: `e${index}`,
          disposition,
          verdict: null,
          turns: 0,
          failure,
        }),
      },
      { ...GROUP, maxReplacements: 0 },
    )
    await driver.runUntil(() => driver.callsOf('gradeSubmission').length === 3, 'the others have ended')
    isHanging = false
    driver.handle('group/ep/01')[how]()
    const result = await group.result<PromptGroupResult>()

    assert.equal(result.valid, 4)
    assert.deepEqual(
      episodesOf(driver).map(({ index }) => index),
      indices,
    )
    assert.deepEqual(result.endings, how === 'cancel' ? { submitted: 4, cancelled: 1 } : { submitted: 4 })
    assert.ok(driver.runs.every(({ status }) => status !== 'open'))
  })
}

test('an episode that is ended while the run is cancelled is not played again', async () => {
  const { driver, group } = await playGroup({ advanceEpisode: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 4)
  group.cancel()
  driver.handle('group/ep/01').terminate()
  await assert.rejects(group.result(), CancelledFailure)
  await driver.runToIdle()

  assert.equal(episodesOf(driver).length, 4)
})

// The story: a run was cancelled amid its groups and is started again. Its episodes are recorded as cancelled, and a group without
// them would train on what happened to be finished.
test('episodes that an earlier execution closed are replaced without using up replacements of this one', async () => {
  const earlier = new Map<number, 'resolved' | null>([
    [0, 'resolved'],
    [1, null],
    [2, null],
    [3, null],
    [4, null],
  ])
  const { driver, group } = await playGroup(
    {
      openSandbox: (input) => {
        const verdict = earlier.get(input.index)
        if (verdict === undefined) return sandboxHandle(input)
        const disposition = verdict === null ? 'cancelled' : 'submitted'
        const episode = `e${input.index}`
        return { kind: 'result', result: { episode, disposition, verdict, turns: 3, failure: null, recalled: true } }
      },
    },
    { ...GROUP, maxReplacements: 0 },
  )
  const result = await group.result<PromptGroupResult>()

  assert.deepEqual([result.valid, result.episodes, result.infra], [4, 4, 0])
  assert.deepEqual(
    episodesOf(driver)
      .map(({ index }) => index)
      .toSorted((one, other) => one - other),
    [0, 1, 2, 3, 4, 5, 6, 7],
  )
  const played = driver.callsOf('advanceEpisode').map(({ input }) => (input as EpisodeInput).index)
  assert.deepEqual(
    played.toSorted((one, other) => one - other),
    [5, 6, 7],
  )
})

test('a group waits for a closing episode of an earlier execution and then plays', async () => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ steps: 1 }),
      // The clean-up of the earlier execution takes its time.
      closeSandbox: () => takes(90_000, undefined),
    },
  })
  const before = driver.start('episode', { ...GROUP, index: 0 }, { workflowId: 'group/ep/00' })
  await driver.runUntil(() => driver.callsOf('closeSandbox').length === 1, 'the earlier one closes')
  const group = driver.start('promptGroup', { ...GROUP, groupSize: 1 }, { workflowId: 'group' })
  const result = await group.result<PromptGroupResult>()
  await before.result()
  assert.equal(result.valid, 1)
  assert.deepEqual(driver.runs.filter(({ workflowId }) => workflowId === 'group/ep/00').length, 2)
})

test('a group names the earlier execution that never closed', async () => {
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ steps: 1 }), advanceEpisode: () => neverEnds() },
  })
  driver.start('episode', { ...GROUP, index: 0 }, { workflowId: 'group/ep/00' })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 1, 'the earlier one plays')
  const group = driver.start('promptGroup', { ...GROUP, groupSize: 1 }, { workflowId: 'group' })
  await assert.rejects(group.result(), (error) => {
    assert.match(String((error as Error).cause ?? error), /group\/ep\/00/)
    return true
  })
})
