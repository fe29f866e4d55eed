import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { EpisodeInput, PromptGroupResult } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds } from '../support/activity-script.ts'
import { GROUP, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

async function playGroup(overrides: ActivityTable<AllActivities>, input = GROUP) {
  const driver = await createWorkflowDriver({ activities: { ...scriptedPipeline({ steps: 1 }), ...overrides } })
  return { driver, group: driver.start('promptGroup', input, { workflowId: 'group' }) }
}

function episodesOf(driver: WorkflowDriver): EpisodeInput[] {
  return driver.runs.filter(({ type }) => type === 'episode').map(({ input }) => input as EpisodeInput)
}

test('a group plays its episodes side by side under indices from 0', async () => {
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

test('an infra episode is replaced under the next free index and counts in no mean', async () => {
  const { driver, group } = await playGroup({
    advanceEpisode: ({ index }) => {
      if (index === 1) throw failureOf('Sandbox.JournalConflict')
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
    failure: 'Sandbox.JournalConflict',
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
  })
})

test('replacements end at the bound: the group is short, not endless', async () => {
  const { driver, group } = await playGroup({
    advanceEpisode: ({ index }) => {
      if (index > 0) throw failureOf('Sandbox.JournalConflict')
      return { turns: 8, disposition: 'submitted' }
    },
  })
  const result = await group.result<PromptGroupResult>()

  assert.equal(result.valid, 1)
  assert.equal(result.episodes, GROUP.groupSize + GROUP.maxReplacements)
  assert.equal(result.infra, GROUP.groupSize + GROUP.maxReplacements - 1)
  assert.equal(new Set(episodesOf(driver).map(({ index }) => index)).size, result.episodes)
})

test("one episode fails by the user's configuration: the group fails with that code and closes every sandbox", async () => {
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
