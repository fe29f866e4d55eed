/** No wait of a workflow is without a limit, and what it waits for can be asked at any moment. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure } from '@temporalio/common'
import type { PlannedIteration } from '../../src/contracts/activities.types.ts'
import type { WorkflowWaits } from '../../src/contracts/waits.types.ts'
import type { TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import { neverEnds, takes } from '../support/activity-script.ts'
import { PLAN, policyRef, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { createWorkflowDriver } from '../support/workflow-driver.ts'

const DAY_MS = 86_400_000

/** More tasks than one execution of a gate takes. */
const LARGE_GATE = 400

test('every activity of a whole run is scheduled with all of its limits', async () => {
  const activities = scriptedPipeline({ steps: 1 })
  // A stage that may end early, groups that are refilled, a gate as wide as its hosts, and one episode that is lost, so that also what is rare is asked for.
  const [first, ...others] = PLAN.stages
  activities.resolveRecipe = () => ({
    ...PLAN,
    stages: first === undefined ? [] : [{ ...first, plateau: true }, ...others],
    evaluateEvery: 1,
    gateWidth: null,
  })
  const resolve = activities.resolveRecipe
  activities.resolveRecipe = (input, ...context) =>
    input.kind === 'eval'
      ? { ...PLAN, run: 'night', evaluation: 'night', nights: true, policies: 'kept' }
      : (resolve?.(input, ...context) ?? PLAN)
  activities.planIteration = (input) => {
    const planned = scriptedPipeline({ steps: 1 }).planIteration?.(input, {} as never) as PlannedIteration
    return { ...planned, refill: 1 }
  }
  let isFirst = true
  activities.openSandbox = (input) => {
    if (!isFirst) return scriptedPipeline().openSandbox?.(input, {} as never) as never
    isFirst = false
    throw ApplicationFailure.nonRetryable('gone', 'Sandbox.ImageMissing')
  }
  activities.gradePatch = ({ index }) => {
    if (index === 0) throw ApplicationFailure.nonRetryable('gone', 'Sandbox.ImageMissing')
    return { kind: 'resolved', reason: null }
  }
  activities.gateTask = ({ index }) => {
    if (index === LARGE_GATE - 1) throw ApplicationFailure.nonRetryable('gone', 'Artifact.Missing')
    return { done: true, ok: true }
  }
  const driver = await createWorkflowDriver({ activities })
  const job = driver.start('trainAgent', { recipe: 'demo' })
  await job.result<TrainAgentResult>()
  await driver.start('gradePredictions', { regrade: 'demo' }).result()
  await driver.start('gateSuite', { recipe: 'demo' }).result()
  await driver.start('readEvaluation', { run: 'demo' }).result()
  const receiver = { urlVariable: 'URL', secretVariable: 'SECRET', template: 'json' }
  const holder = { queue: 'sandbox.node-7.1', engine: 'e' }
  driver.start('host', { host: 'node-7', holder, drain: null })
  await driver.runUntil(() => driver.callsOf('attendHost').length > 0)
  driver.stopQueue(holder.queue)
  await driver.start('watch', { blockerMinutes: 30, runs: 'scheduled', receiver }).result()
  await driver.start('evaluate', { recipe: 'nightly' }, { workflowId: 'eval/night' }).result()

  // An execution that continues another one and fails cancels what that one has left.
  const gate = { plan: PLAN, suite: { suite: SHA, name: 'large', tasks: LARGE_GATE } }
  await assert.rejects(driver.start('gateTasks', gate).result())

  const asked = new Set(driver.calls.map(({ type }) => type))
  assert.deepEqual([...asked].toSorted(), Object.keys(activities).toSorted(), 'every activity type must be scheduled')
  for (const { type, scheduleToStartMs, startToCloseMs, heartbeatMs, maximumAttempts } of driver.calls) {
    assert.ok(scheduleToStartMs !== null && scheduleToStartMs <= 7 * DAY_MS, `${type}: to start`)
    assert.ok(startToCloseMs !== null && startToCloseMs <= 14 * DAY_MS, `${type}: to close`)
    // A silent worker, and what an activity waits for, are to be known within the minute.
    assert.ok(heartbeatMs !== null && heartbeatMs <= 30_000, `${type}: heartbeat`)
    assert.ok(maximumAttempts > 0, `${type}: attempts`)
  }
})

test('a paused run reports since when it is paused and how to resume it', async () => {
  let open = false
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ steps: 1 }),
      runTrainingJob: ({ policy }) => {
        open = true
        return takes(60_000, { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA })
      },
    },
    startTime: '2026-03-04T05:06:07Z',
  })
  const job = driver.start('trainAgent', { recipe: 'demo' }, { workflowId: `train/${PLAN.run}` })
  await driver.runUntil(() => open)
  const [step, ...others] = (await job.query<WorkflowWaits>('blockers')).waits
  assert.deepEqual(
    [step?.on, step?.doing, others],
    [{ kind: 'workflow', name: `train/${PLAN.run}/rft` }, 'rejection fine-tuning', []],
  )

  await job.update('pause')
  const pausedAt = driver.nowMs
  await driver.advance(60_000)
  await job.update('pause')
  const { run, waits } = await job.query<WorkflowWaits>('blockers')
  assert.equal(run, PLAN.run)
  assert.equal(waits[0]?.on.kind, 'person')
  assert.equal(waits[0]?.since, new Date(pausedAt).toISOString(), 'a second pause is the same pause')
  assert.match(waits[0]?.toDo ?? '', new RegExp(`longhaul run resume ${PLAN.run}`))
  assert.match(await job.currentDetails(), /waits for an operator.*paused since 2026-03-04/)

  await job.update('resume')
  assert.deepEqual(
    (await job.query<WorkflowWaits>('blockers')).waits.map(({ on }) => on.kind),
    ['workflow'],
  )
})

test('a pause of thirty days fails the run with a code instead of resuming it', async () => {
  let open = false
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ steps: 1 }),
      summarizeEvaluation: ({ name, policy }) => {
        open = true
        return {
          score: { name, policy: policy.version, passAt1: 0.5, sem: 0.1, tasks: 2, attempts: 2 },
          evaluation: { key: name, sha256: SHA, bytes: 1 },
        }
      },
    },
  })
  const job = driver.start('trainAgent', { recipe: 'demo' })
  await driver.runUntil(() => open)
  await job.update('pause')
  await driver.advance(29 * DAY_MS)
  assert.equal(driver.callsOf('runTrainingJob').length, 0)
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Run.PausedTooLong')
    return true
  })
  assert.equal(driver.callsOf('runTrainingJob').length, 0)
})

test('a queue without a worker fails the run after a week with the activity and a code', async () => {
  const driver = await createWorkflowDriver({ activities: { ...scriptedPipeline(), prepareSuite: () => neverEnds() } })
  driver.stopQueue('trainer')
  driver.stopQueue('control')
  const job = driver.start('trainAgent', { recipe: 'demo' })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Worker.Missing')
    assert.match(error.message, /No worker started the activity resolveRecipe/)
    return true
  })
})
