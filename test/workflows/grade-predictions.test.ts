import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { OpenGradingInput } from '../../src/contracts/activities.types.ts'
import type { GradePredictionsResult, RunProgress } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes, timesOut } from '../support/activity-script.ts'
import { scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriverOptions } from '../support/workflow-driver.ts'

const REQUEST = { predictions: 'gold', suite: 'demo:heldOut', run: 'mine' }

async function grade(
  overrides: ActivityTable<AllActivities> = {},
  options: Partial<WorkflowDriverOptions<AllActivities>> = {},
) {
  const driver = await createWorkflowDriver({ ...options, activities: { ...scriptedPipeline(), ...overrides } })
  return { driver, job: driver.start('gradePredictions', REQUEST, { workflowId: 'grade/mine' }) }
}

const indexesOf = (calls: { input: unknown }[]): number[] =>
  calls.map(({ input }) => (input as { index: number }).index)

test('every patch is graded once, and the verdicts are counted from records', async () => {
  const { driver, job } = await grade()
  const result = await job.result<GradePredictionsResult>()
  assert.equal(result.run, 'mine')
  assert.deepEqual(
    indexesOf(driver.callsOf('gradePatch')).toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index),
  )
  assert.equal(driver.callsOf('closeGrading').length, 1)
  const opened = driver.callsOf('openGrading')[0]?.input as OpenGradingInput
  assert.deepEqual(
    { ...opened, firstExecutionRunId: '' },
    {
      ...REQUEST,
      workflowId: 'grade/mine',
      firstExecutionRunId: '',
      date: '2026-01-01',
    },
  )
})

test('continue-as-new near the history limit grades no patch twice and makes the plan once', async () => {
  const { driver, job } = await grade({}, { suggestContinueAsNewAfterEvents: 90 })
  await job.result()
  assert.ok(driver.runs.length > 1, 'it continued')
  for (const run of driver.runs) assert.doesNotMatch(await run.currentDetails(), /failed/)
  assert.ok(driver.runs.every(({ largestPayload }) => largestPayload <= 4096))
  assert.deepEqual(
    indexesOf(driver.callsOf('gradePatch')).toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index),
  )
  assert.equal(driver.callsOf('openGrading').length, 1)
})

test('a patch whose worker dies in every attempt gets a reason, and the others get their verdicts', async () => {
  const { driver, job } = await grade({
    gradePatch: ({ index }) => (index === 7 ? timesOut('HEARTBEAT') : { kind: 'resolved', reason: null }),
  })
  await job.result()
  assert.deepEqual(
    driver.callsOf('recordUngradedPatch').map(({ input }) => input),
    [{ run: 'mine', index: 7, failure: 'Sandbox.Lost' }],
  )
  assert.equal(new Set(indexesOf(driver.callsOf('gradePatch'))).size, 40)
})

test('the run stops with the code when none of the first patches can be graded', async () => {
  const { driver, job } = await grade({
    gradePatch: () => ({ kind: 'could-not-grade', reason: 'Sandbox.EngineUnavailable' }),
  })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Sandbox.EngineUnavailable')
    assert.match(error.message, /None of the first \d+ patches/)
    return true
  })
  assert.ok(driver.callsOf('gradePatch').length < 40)
  assert.equal(driver.callsOf('closeGrading').length, 0)
})

test('patches that do not apply do not stop the run', async () => {
  const { driver, job } = await grade({ gradePatch: () => ({ kind: 'could-not-grade', reason: 'patch-rejected' }) })
  await job.result()
  assert.equal(driver.callsOf('gradePatch').length, 40)
})

test('bad input ends the run with its code after one attempt', async () => {
  const { driver, job } = await grade({
    openGrading: () => {
      throw failureOf('Config.Invalid', 'it has no "x__y-1"')
    },
  })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.deepEqual([error.type, error.message], ['Config.Invalid', 'it has no "x__y-1"'])
    return true
  })
  assert.equal(driver.callsOf('openGrading').length, 1)
})

test('a paused run starts nothing new and says how to resume it, and a resumed one continues', async () => {
  const { driver, job } = await grade({ gradePatch: () => takes(1_000, { kind: 'resolved', reason: null }) })
  await driver.runUntil(() => driver.callsOf('gradePatch').length === 16)
  const paused = await job.update<RunProgress>('pause')
  assert.equal(paused.paused, true)
  await driver.advance(60_000)
  assert.equal(driver.callsOf('gradePatch').length, 16)
  const { waits } = await job.query<{ waits: { on: { kind: string }; toDo: string | null }[] }>('blockers')
  assert.deepEqual([waits[0]?.on.kind, waits[0]?.toDo], ['person', 'longhaul run resume mine'])
  const progress = await job.query<RunProgress>('progress')
  assert.match(progress.phase, /16 of 40 patches/)
  assert.deepEqual([progress.work?.unit, progress.work?.done, progress.work?.total], ['patches', 16, 40])
  await job.update('resume')
  await job.result()
  assert.equal(driver.callsOf('gradePatch').length, 40)
})

test('a failed grading during a pause ends the run after resume without another patch', async () => {
  const { driver, job } = await grade({
    gradePatch: ({ index }) =>
      takes(index === 0 ? 10_000 : 1_000, () => {
        if (index === 0) throw failureOf('Config.Invalid')
        return { kind: 'resolved', reason: null }
      }),
  })
  await driver.runUntil(() => driver.callsOf('gradePatch').length === 16)
  await job.update('pause')
  await driver.advance(60_000)
  await job.update('resume')
  await assert.rejects(job.result(), ApplicationFailure)
  assert.equal(driver.callsOf('gradePatch').length, 16)
})

test('a cancelled run stops its open gradings and starts no other', async () => {
  const { driver, job } = await grade({ gradePatch: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('gradePatch').length === 16)
  job.cancel()
  await assert.rejects(job.result(), CancelledFailure)
  assert.equal(driver.callsOf('gradePatch').length, 16)
})
