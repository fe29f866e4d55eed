/**
 * The driver imitates a server. The proof that it imitates well: the SDK's own core accepts every history that it writes,
 * with the same code, in every situation that the other tests put workflows into.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ActivityTable, failureOf, neverEnds, timesOut } from '../support/activity-script.ts'
import { describeHistory, replayAll } from '../support/replay.ts'
import { PLAN, ROLLOUT, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { buildWorkflowBundle } from '../support/workflow-bundle.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

async function assertReplays(driver: WorkflowDriver, atLeast: number): Promise<void> {
  const closed = driver.runs.filter(({ status }) => status !== 'open' && status !== 'terminated')
  assert.ok(closed.length >= atLeast, `only ${closed.length} closed runs`)
  const histories = closed.map((run) => describeHistory(`${run.type} ${run.workflowId}`, run.history))
  const failures = await replayAll(await buildWorkflowBundle(), histories)
  assert.deepEqual(
    failures.map(({ name, error }) => `${name}: ${error.message}`),
    [],
  )
}

async function trainingDriver(overrides: ActivityTable<AllActivities> = {}): Promise<WorkflowDriver> {
  return createWorkflowDriver({ activities: { ...scriptedPipeline({ steps: 1 }), ...overrides } })
}

test('a whole run with a pause, a resume and a stop replays in every workflow', async () => {
  let training = false
  const driver = await trainingDriver({
    buildBatch: (input) => {
      training = true
      return scriptedBatch(input)
    },
  })
  const job = driver.start('trainAgent', {}, { workflowId: 'root' })
  await driver.runUntil(() => training)
  await job.update('pause')
  await driver.advance(60_000)
  await job.update('resume')
  await job.update('stopAfterIteration', { iteration: 1 })
  await job.result()
  await assertReplays(driver, 20)
})

test('lost hosts, infra episodes and retried failures replay', async () => {
  const driver = await trainingDriver({
    advanceEpisode: ({ index, sandbox }, { attempt }) => {
      if (index === 0 && sandbox.name.endsWith('-p1')) return timesOut('HEARTBEAT')
      if (index === 1) throw failureOf('Artifact.Conflict')
      if (attempt === 1) throw failureOf('Model.RateLimited')
      return { turns: 8, disposition: 'submitted' }
    },
    closeSandbox: () => timesOut('SCHEDULE_TO_START'),
  })
  await driver.start('rollout', { ...ROLLOUT, tasks: 2 }).result()
  await assertReplays(driver, 7)
})

test('a cancelled run replays from the root down to its episodes', async () => {
  const driver = await trainingDriver({ advanceEpisode: () => neverEnds() })
  const job = driver.start('trainAgent', {}, { workflowId: 'root' })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 4)
  job.cancel()
  await assert.rejects(job.result())
  await driver.runToIdle()
  await assertReplays(driver, 8)
})

test('a run that fails by configuration replays', async () => {
  const driver = await trainingDriver({
    advanceEpisode: () => {
      throw failureOf('Model.NoTokenIds')
    },
  })
  await assert.rejects(driver.start('trainAgent', {}, { workflowId: 'root' }).result())
  await driver.runToIdle()
  await assertReplays(driver, 5)
})

test('continued runs replay one by one', async () => {
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ steps: 1, tasks: ROLLOUT.tasks }),
    suggestContinueAsNewAfterEvents: 60,
  })
  await driver.start('rollout', ROLLOUT).result()
  assert.ok(driver.runs.filter(({ status }) => status === 'continued-as-new').length > 0)
  await assertReplays(driver, 30)
})

function scriptedBatch(input: Parameters<AllActivities['buildBatch']>[0]) {
  const build = scriptedPipeline({ plan: PLAN }).buildBatch
  assert.ok(build)
  return build(input, {} as never) as never
}
