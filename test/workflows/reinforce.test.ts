import assert from 'node:assert/strict'
import { test } from 'node:test'
import { purposeOf } from '../../src/contracts/episode-purpose.ts'
import { ApplicationFailure } from '@temporalio/common'
import type { PlannedIteration } from '../../src/contracts/activities.types.ts'
import type { TrainingStageResult } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf } from '../support/activity-script.ts'
import { artifact, PLAN, policyRef, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

async function playStage(input: {
  maxIterations: number
  evaluateEvery?: number
  plateau?: true
  overrides?: ActivityTable<AllActivities>
  suggestContinueAsNewAfterEvents?: number
}) {
  const plan = {
    ...PLAN,
    stages: [
      {
        name: 'dapo-1',
        maxIterations: input.maxIterations,
        ...(input.plateau === true ? { plateau: true as const } : {}),
      },
    ],
    evaluateEvery: input.evaluateEvery ?? null,
  }
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ plan, tasks: 1, groupSize: 1, steps: 1 }), ...input.overrides },
    suggestContinueAsNewAfterEvents: input.suggestContinueAsNewAfterEvents ?? 4096,
  })
  const args = { plan, stageIndex: 0, policy: policyRef(0), suite: SHA }
  return { driver, stage: driver.start('reinforce', args, { workflowId: `train/${plan.run}/dapo-1` }) }
}

function jobsOf(driver: WorkflowDriver): { iteration: number; policy: string }[] {
  return driver.callsOf('runTrainingJob').map(({ input }) => {
    const { iteration, policy } = input as { iteration: number; policy: { version: string } }
    return { iteration, policy: policy.version }
  })
}

const ORDERED = ['planIteration', 'buildBatch', 'runTrainingJob', 'publishPolicy']

test('each iteration collects, scores, trains and publishes with the policy of the one before', async () => {
  const { driver, stage } = await playStage({ maxIterations: 3 })
  const result = await stage.result<TrainingStageResult>()

  assert.equal(result.iterations, 3)
  assert.equal(result.policy.version, policyRef(3).version)
  assert.deepEqual(
    driver.calls.map(({ type }) => type).filter((type) => ORDERED.includes(type)),
    [...ORDERED, ...ORDERED, ...ORDERED],
  )
  assert.deepEqual(jobsOf(driver), [
    { iteration: 1, policy: policyRef(0).version },
    { iteration: 2, policy: policyRef(1).version },
    { iteration: 3, policy: policyRef(2).version },
  ])
  // Episodes of an iteration play the policy that the iteration before published.
  assert.deepEqual(
    driver.callsOf('openSandbox').map(({ input }) => (input as { policy: string }).policy),
    [policyRef(0).version, policyRef(1).version, policyRef(2).version],
  )
})

test('an iteration without a spread in any group trains nothing and keeps the policy', async () => {
  const empty = { trajectories: 0, groups: 1, groupsKept: 0, episodes: 1, infra: 0 }
  const { driver, stage } = await playStage({
    maxIterations: 2,
    overrides: {
      buildBatch: ({ iteration }) => ({
        ...empty,
        batches: iteration === 1 ? [] : [artifact('batch')],
        meanReward: 0,
        resolvedRate: 0,
        meanTurns: 8,
      }),
    },
  })
  const result = await stage.result<TrainingStageResult>()

  assert.equal(result.iterations, 2)
  assert.deepEqual(jobsOf(driver), [{ iteration: 2, policy: policyRef(0).version }])
})

/** Rounds of refilling that find so many groups without a spread, one after another; later ones find none. */
function refilling(rounds: number, found: readonly number[]): ActivityTable<AllActivities> {
  const script = scriptedPipeline({ tasks: 2, groupSize: 1, steps: 1 })
  return {
    planIteration: async (input, call) => {
      const planned = await script.planIteration?.(input, call)
      assert.ok(planned !== undefined && 'plan' in planned)
      return purposeOf(input.stage).kind === 'reinforce' ? { ...planned, refill: rounds } : planned
    },
    planRefill: async (input, call) => {
      const planned = await script.planRefill?.(input, call)
      assert.ok(planned !== undefined && 'plan' in planned)
      return { ...planned, tasks: found[input.round - 1] ?? 0 }
    },
    readPlanPage: ({ plan, from, count }) => {
      const round = Number(/refill-(\d+)/.exec(plan.key)?.[1] ?? 0)
      const size = round === 0 ? 2 : (found[round - 1] ?? 0)
      return Array.from({ length: Math.min(count, size - from) }, (_, place) => `round-${round}-${from + place}`)
    },
  }
}

test('groups without a spread are refilled in rounds until all have one, and one batch holds all of them', async () => {
  const { driver, stage } = await playStage({ maxIterations: 1, overrides: refilling(5, [2, 1]) })
  await stage.result()

  const ordered = ['planIteration', 'planRefill', 'openSandbox', 'buildBatch', 'runTrainingJob']
  const calls = driver.calls.map(({ type }) => type).filter((type) => ordered.includes(type))
  assert.deepEqual(
    calls.filter((type, place) => type !== calls[place - 1]),
    [
      'planIteration',
      'openSandbox',
      'planRefill',
      'openSandbox',
      'planRefill',
      'openSandbox',
      'planRefill',
      'buildBatch',
      'runTrainingJob',
    ],
  )
  assert.deepEqual(
    driver.runs.filter(({ type }) => type === 'rollout').map(({ workflowId }) => workflowId.replace(/.*dapo-1/, '')),
    ['/0001', '/0001/refill/1', '/0001/refill/2'],
  )
  const tasks = driver.callsOf('openSandbox').map(({ input }) => (input as { taskId: string }).taskId)
  assert.deepEqual([tasks.length, new Set(tasks).size], [5, 5])
})

test('refilling ends at the bound of the recipe when no group has a spread, and the iteration continues', async () => {
  const { driver, stage } = await playStage({ maxIterations: 2, overrides: refilling(3, [1, 1, 1, 1, 1]) })
  assert.equal((await stage.result<TrainingStageResult>()).iterations, 2)
  assert.equal(driver.callsOf('planRefill').length, 2 * 3)
  assert.equal(driver.callsOf('buildBatch').length, 2)
})

test('a stage that is over, because the run has gone on to its evaluation, begins no further iteration', async () => {
  const script = scriptedPipeline({ tasks: 1, groupSize: 1, steps: 1 })
  const { driver, stage } = await playStage({
    maxIterations: 10,
    evaluateEvery: 1,
    overrides: {
      planIteration: async (input, call) => {
        const planned = await script.planIteration?.(input, call)
        assert.ok(planned !== undefined && 'plan' in planned)
        return input.iteration > 2 ? { ...planned, tasks: 0, over: true } : planned
      },
    },
  })
  const result = await stage.result<TrainingStageResult>()
  assert.deepEqual([result.iterations, result.policy.version], [2, policyRef(2).version])
  assert.equal(jobsOf(driver).length, 2)
  assert.equal(driver.callsOf('summarizeEvaluation').length, 2)
})

test('a recipe without refill plans no refill', async () => {
  const { driver, stage } = await playStage({ maxIterations: 2 })
  await stage.result()
  assert.equal(driver.callsOf('planRefill').length, 0)
})

test('a pause holds the next refill round, and a resume continues it', async () => {
  const { driver, stage } = await playStage({ maxIterations: 1, overrides: refilling(2, [1, 1]) })
  await driver.runUntil(() => driver.callsOf('planRefill').length === 1)
  stage.signal('control', { paused: true, stopAfterIteration: null })
  await driver.advance(3_600_000)
  assert.equal(driver.callsOf('planRefill').length, 1)
  assert.equal(driver.callsOf('openSandbox').length, 2)
  stage.signal('control', { paused: false, stopAfterIteration: null })
  await stage.result()
  assert.equal(driver.callsOf('openSandbox').length, 4)
})

test('evaluations inside a stage run every n iterations with the policy just published', async () => {
  const { driver, stage } = await playStage({ maxIterations: 5, evaluateEvery: 2 })
  await stage.result()

  assert.deepEqual(
    driver.callsOf('summarizeEvaluation').map(({ input }) => {
      const { name, policy } = input as { name: string; policy: { version: string } }
      return [name, policy.version]
    }),
    [
      ['dapo-1-0002', policyRef(2).version],
      ['dapo-1-0004', policyRef(4).version],
    ],
  )
})

test('a stage of sixty iterations continues as new without repeating or skipping one', async () => {
  const { driver, stage } = await playStage({ maxIterations: 60 })
  const result = await stage.result<TrainingStageResult>()

  assert.equal(result.iterations, 60)
  assert.equal(result.policy.version, policyRef(60).version)
  assert.deepEqual(
    jobsOf(driver).map(({ iteration }) => iteration),
    Array.from({ length: 60 }, (_, place) => place + 1),
  )
  const runs = driver.runs.filter(({ type }) => type === 'reinforce')
  assert.deepEqual(
    runs.map(({ status }) => status),
    ['continued-as-new', 'continued-as-new', 'completed'],
  )
  assert.ok(Math.max(...runs.map(({ events }) => events)) < 2_000, 'a page of the UI stays readable')
})

test('stopAfterIteration ends the stage after that iteration with its policy', async () => {
  const { driver, stage } = await playStage({
    maxIterations: 10,
    overrides: {
      runTrainingJob: ({ iteration, policy }) => {
        if (iteration === 2) stage.signal('control', { paused: false, stopAfterIteration: 3 })
        return { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA }
      },
    },
  })
  const result = await stage.result<TrainingStageResult>()

  assert.equal(result.iterations, 3)
  assert.equal(driver.callsOf('runTrainingJob').length, 3)
})

test('a stop at an iteration already passed ends the stage after the open one', async () => {
  const { stage } = await playStage({
    maxIterations: 10,
    overrides: {
      runTrainingJob: ({ iteration, policy }) => {
        if (iteration === 4) stage.signal('control', { paused: false, stopAfterIteration: 1 })
        return { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA }
      },
    },
  })
  const result = await stage.result<TrainingStageResult>()
  assert.equal(result.iterations, 4)
  assert.equal(result.policy.version, policyRef(4).version)
})

test('a pause during training holds before the next iteration and lets the job finish', async () => {
  let isPaused = false
  const { driver, stage } = await playStage({
    maxIterations: 2,
    overrides: {
      runTrainingJob: ({ iteration, policy }) => {
        if (iteration === 1) stage.signal('control', { paused: true, stopAfterIteration: null })
        isPaused = true
        return { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA }
      },
    },
  })
  await driver.runUntil(() => isPaused)
  await driver.advance(86_400_000)
  assert.equal(driver.callsOf('publishPolicy').length, 1)
  assert.equal(driver.callsOf('planIteration').length, 1)

  stage.signal('control', { paused: false, stopAfterIteration: null })
  assert.equal((await stage.result<TrainingStageResult>()).iterations, 2)
})

test('pause and stop survive continue-as-new of the stage', async () => {
  let told = false
  const { driver, stage } = await playStage({
    maxIterations: 30,
    overrides: {
      runTrainingJob: ({ iteration, policy }) => {
        if (iteration === 25 && !told) stage.signal('control', { paused: true, stopAfterIteration: 27 })
        if (iteration === 25) told = true
        return { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA }
      },
    },
  })
  await driver.runUntil(() => told)
  await driver.advance(86_400_000)
  assert.equal(driver.callsOf('runTrainingJob').length, 25)
  assert.equal(driver.runs.filter(({ type }) => type === 'reinforce').length, 2)

  stage.signal('control', { paused: false, stopAfterIteration: 27 })
  assert.equal((await stage.result<TrainingStageResult>()).iterations, 27)
})

test('a trainer that dies is attempted again with the same input', async () => {
  const { driver, stage } = await playStage({
    maxIterations: 1,
    overrides: {
      runTrainingJob: ({ policy }, { attempt }) => {
        if (attempt < 3) throw failureOf('Trainer.Failed')
        return { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA }
      },
    },
  })
  await stage.result()

  const jobs = driver.callsOf('runTrainingJob')
  assert.deepEqual(
    jobs.map(({ attempt }) => attempt),
    [1, 2, 3],
  )
  assert.equal(new Set(jobs.map(({ input }) => JSON.stringify(input))).size, 1)
})

test('a diverged training job ends the stage with its code and without a second attempt', async () => {
  const { driver, stage } = await playStage({
    maxIterations: 3,
    overrides: {
      runTrainingJob: () => {
        throw failureOf('Trainer.Diverged', 'loss is not finite')
      },
    },
  })
  await assert.rejects(stage.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Trainer.Diverged')
    assert.match(error.message, /not finite/)
    return true
  })
  assert.equal(driver.callsOf('runTrainingJob').length, 1)
  assert.equal(driver.callsOf('publishPolicy').length, 0)
})

test('a stage whose evaluations have stopped improving ends, says so and returns their policy', async () => {
  const { driver, stage } = await playStage({
    maxIterations: 9,
    evaluateEvery: 2,
    plateau: true,
    overrides: { judgePlateau: ({ iteration }) => ({ plateau: iteration === 4 }) },
  })
  const result = await stage.result<TrainingStageResult>()
  assert.deepEqual([result.iterations, result.policy.version], [4, policyRef(4).version])
  assert.deepEqual(
    driver.callsOf('judgePlateau').map(({ input }) => input),
    [2, 4].map((iteration) => ({ run: PLAN.run, stage: 'dapo-1', iteration })),
  )
})

test('a stage without a plateau rule judges no plateau', async () => {
  const { driver, stage } = await playStage({ maxIterations: 4, evaluateEvery: 2 })
  assert.equal((await stage.result<TrainingStageResult>()).iterations, 4)
  assert.deepEqual(driver.callsOf('judgePlateau'), [])
})

test('recorded iterations are neither played nor trained again, and the next one samples with a published policy', async () => {
  const base = scriptedPipeline({ tasks: 1, groupSize: 1, steps: 1 })
  const { driver, stage } = await playStage({
    maxIterations: 3,
    overrides: {
      planIteration: async (input, call) => {
        const planned = (await base.planIteration?.(input, call)) as PlannedIteration
        const { iteration } = input
        return iteration > 2 ? planned : { ...planned, collected: true, finished: { policy: policyRef(iteration) } }
      },
    },
  })
  const result = await stage.result<TrainingStageResult>()
  assert.equal(result.policy.version, policyRef(3).version)
  assert.deepEqual(jobsOf(driver), [{ iteration: 3, policy: policyRef(2).version }])
  assert.deepEqual(
    driver.callsOf('publishPolicy').map(({ input }) => (input as { policy: { globalStep: number } }).policy.globalStep),
    [2, 3],
  )
  assert.equal(driver.runs.filter(({ type }) => type === 'rollout').length, 1)
})

test('an iteration that was collected but not trained only runs its training job', async () => {
  const base = scriptedPipeline({ tasks: 1, groupSize: 1, steps: 1 })
  const { driver, stage } = await playStage({
    maxIterations: 1,
    overrides: {
      planIteration: async (input, call) => ({
        ...((await base.planIteration?.(input, call)) as PlannedIteration),
        collected: true,
      }),
    },
  })
  await stage.result<TrainingStageResult>()
  assert.equal(driver.runs.filter(({ type }) => type === 'rollout').length, 0)
  assert.equal(jobsOf(driver).length, 1)
})

test('a stage with all iterations recorded ends and says that its policy is not published', async () => {
  const base = scriptedPipeline({ tasks: 1, groupSize: 1, steps: 1 })
  const { driver, stage } = await playStage({
    maxIterations: 2,
    overrides: {
      planIteration: async (input, call) => ({
        ...((await base.planIteration?.(input, call)) as PlannedIteration),
        collected: true,
        finished: { policy: input.iteration === 1 ? policyRef(7) : null },
      }),
    },
  })
  assert.deepEqual(await stage.result(), { policy: policyRef(7), iterations: 2, unpublished: true })
  assert.equal(driver.callsOf('publishPolicy').length, 0)
})
