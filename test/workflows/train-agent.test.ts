import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type { RunProgress, StageScore, TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import type { WorkflowWaits } from '../../src/contracts/waits.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes } from '../support/activity-script.ts'
import { PLAN, policyRef, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

async function train(overrides: ActivityTable<AllActivities> = {}, plan = PLAN) {
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ plan, steps: 1 }), ...overrides },
    startTime: '2026-03-04T05:06:07Z',
  })
  return { driver, job: driver.start('trainAgent', { recipe: 'demo' }, { workflowId: '8d1f-from-the-ui' }) }
}

/** Ids of the executions of one type, in order of start. */
function idsOf(driver: WorkflowDriver, type: string): string[] {
  return driver.runs.filter((run) => run.type === type).map(({ workflowId }) => workflowId)
}

test('{"recipe": "demo"} alone runs gate, base, RFT, every stage and every evaluation in order', async () => {
  const { driver, job } = await train()
  const result = await job.result<TrainAgentResult>()

  assert.deepEqual(
    driver.runs
      .filter(({ type }) => ['gateTasks', 'evaluate', 'rejectionFineTune', 'reinforce'].includes(type))
      .map(({ workflowId }) => workflowId),
    [
      `train/${PLAN.run}/gate/held-out`,
      `train/${PLAN.run}/gate/train`,
      `train/${PLAN.run}/eval/base`,
      `train/${PLAN.run}/rft`,
      `train/${PLAN.run}/eval/rft`,
      `train/${PLAN.run}/dapo-1`,
      `train/${PLAN.run}/eval/dapo-1`,
      `train/${PLAN.run}/dapo-2`,
      `train/${PLAN.run}/eval/rl`,
    ],
  )
  // RFT trains two slices (v1, v2), dapo-1 two iterations (v3, v4), dapo-2 one (v5).
  assert.deepEqual(
    result.stages.map(({ name, policy }) => [name, policy]),
    [
      ['base', policyRef(0).version],
      ['rft', policyRef(2).version],
      ['dapo-1', policyRef(4).version],
      ['rl', policyRef(5).version],
    ],
  )
  assert.equal(result.policy, policyRef(5).version)
  assert.equal(result.run, PLAN.run)
  assert.deepEqual(
    driver.callsOf('promote').map(({ input }) => (input as { policy: { version: string } }).policy.version),
    [policyRef(5).version],
  )
  assert.equal(driver.calls.at(-1)?.type, 'releasePolicies')
})

test('additional suites are gated once and evaluated after every held-out evaluation, whose score decides promotion', async () => {
  const plan = {
    ...PLAN,
    rft: false,
    stages: [{ name: 'dapo-1', maxIterations: 1 }],
    evaluateEvery: 1,
    suites: ['may'],
  }
  const { driver, job } = await train({}, plan)
  const result = await job.result<TrainAgentResult>()

  assert.deepEqual(idsOf(driver, 'gateTasks'), [
    `train/${PLAN.run}/gate/held-out`,
    `train/${PLAN.run}/gate/may`,
    `train/${PLAN.run}/gate/train`,
  ])
  assert.deepEqual(
    idsOf(driver, 'evaluate').map((id) => id.split('/').at(-1)),
    ['base', 'base.may', 'dapo-1-0001', 'rl', 'rl.may'],
  )
  const prepared = driver.callsOf('prepareSuite').map(({ input }) => (input as { which: string }).which)
  assert.equal(prepared.filter((which) => which === 'may').length, 3, 'once to gate it, and once in each evaluation')
  assert.deepEqual(
    result.stages.map(({ name }) => name),
    ['base', 'base.may', 'rl', 'rl.may'],
  )
  assert.deepEqual(
    driver.callsOf('promote').map(({ input }) => (input as { score: { name: string } }).score.name),
    ['rl'],
  )
})

test('the recipe is resolved first, with the facts that form the name of the run', async () => {
  const { driver, job } = await train()
  await job.result()

  const [first] = driver.calls
  assert.equal(first?.type, 'resolveRecipe')
  assert.deepEqual(first?.input, {
    recipe: 'demo',
    workflowId: '8d1f-from-the-ui',
    firstExecutionRunId: job.describe().runId,
    kind: 'train',
    date: '2026-03-04',
  })
  assert.equal(job.describe().memo.run, PLAN.run)
  assert.equal(job.describe().searchAttributes.TrainRun, PLAN.run)
})

test('a recipe without reinforcement needs no stage and promotes the RFT policy', async () => {
  const plan = { ...PLAN, stages: [] }
  const { driver, job } = await train({}, plan)
  const result = await job.result<TrainAgentResult>()

  assert.deepEqual(
    result.stages.map(({ name }) => name),
    ['base', 'rft'],
  )
  assert.equal(result.policy, policyRef(2).version)
  assert.deepEqual(idsOf(driver, 'reinforce'), [])
})

test('pause reaches the open stage and its rollout, and resume continues both', async () => {
  let open = false
  const { driver, job } = await train({
    advanceEpisode: ({ stage }) => {
      if (stage === 'dapo-1') open = true
      return { turns: 8, disposition: 'submitted' }
    },
    planIteration: ({ stage }) => ({
      plan: { key: stage, sha256: SHA, bytes: 1 },
      tasks: 2,
      groupSize: 1,
      maxReplacements: 0,
      maxOpenGroups: 1,
    }),
  })
  await driver.runUntil(() => open)
  const paused = await job.update<RunProgress>('pause')
  assert.equal(paused.paused, true)
  assert.equal(paused.phase, 'reinforcing, dapo-1')

  await driver.advance(86_400_000)
  const groups = idsOf(driver, 'promptGroup').filter((id) => id.includes('/dapo-1/'))
  assert.equal(groups.length, 1, 'the open group finished, the second never started')
  assert.match(await job.currentDetails(), /paused/)

  const resumed = await job.update<RunProgress>('resume')
  assert.equal(resumed.paused, false)
  const result = await job.result<TrainAgentResult>()
  assert.equal(result.stages.at(-1)?.name, 'rl')
})

test('an alarm of a training job pauses the run by name before its next iteration, until it is resumed', async () => {
  const why = 'k3 is 0.23, above 0.1, at optimizer step 2'
  const plan = { ...PLAN, rft: false, stages: [{ name: 'dapo-1', maxIterations: 3 }] }
  const { driver, job } = await train(
    {
      runTrainingJob: ({ iteration, policy }) => ({
        policy: policyRef(policy.globalStep + 1),
        steps: 2,
        loss: 0,
        jobKey: SHA,
        ...(iteration === 1 ? { hold: why } : {}),
      }),
    },
    plan,
  )
  await driver.runUntil(() => driver.callsOf('publishPolicy').length === 2)
  await driver.advance(86_400_000)

  assert.equal(driver.callsOf('runTrainingJob').length, 1, 'the second iteration waits')
  assert.equal((await job.query<RunProgress>('progress')).paused, true)
  const { waits } = await job.query<WorkflowWaits>('blockers')
  assert.deepEqual(waits[0]?.on, { kind: 'person', name: 'the operator who judges the alarm' })
  assert.match(waits[0]?.doing ?? '', /paused by an alarm, dapo-1, iteration 1: k3 is 0.23/)
  assert.match(waits[0]?.toDo ?? '', /longhaul run resume/)
  assert.match(await job.currentDetails(), /waits for an operator.*by an alarm/)

  assert.equal((await job.update<RunProgress>('resume')).paused, false)
  const result = await job.result<TrainAgentResult>()
  assert.equal(result.policy, policyRef(3).version)
  assert.equal(driver.callsOf('runTrainingJob').length, 3)
})
// The story: a job ends with an alarm, and its stage pauses itself. At the same moment an operator changes a limit, and the order of the
// run, which has not heard of the alarm, lets the stage go on.
test('a run that hears of an alarm pauses a stage that goes on', async () => {
  const plan = { ...PLAN, rft: false, stages: [{ name: 'dapo-1', maxIterations: 3 }] }
  const { driver, job } = await train({ runTrainingJob: () => takes(60_000, jobOf(1)) }, plan)
  await driver.runUntil(() => driver.callsOf('runTrainingJob').length === 1)
  job.signal('alarm', { stage: 'dapo-1', iteration: 1, why: 'grad_norm is 200' })
  await driver.advance(86_400_000)
  assert.equal((await job.query<RunProgress>('progress')).paused, true)
  assert.equal(driver.callsOf('runTrainingJob').length, 1, 'the second iteration waits')
  await job.update('resume')
  await job.result<TrainAgentResult>()
})

function jobOf(step: number) {
  return { policy: policyRef(step), steps: 1, loss: 0, jobKey: SHA }
}

test('an alarm of fine-tuning pauses before its next job and before its policy is published', async () => {
  const plan = { ...PLAN, stages: [{ name: 'dapo-1', maxIterations: 1 }] }
  const { driver, job } = await train(
    {
      runTrainingJob: ({ kind, slice, policy }) => ({
        policy: policyRef(policy.globalStep + 1),
        steps: 2,
        loss: 0,
        jobKey: SHA,
        ...(kind === 'rft' && slice === 0 ? { hold: 'grad_norm is 200, above 50, at optimizer step 2' } : {}),
      }),
    },
    plan,
  )
  await driver.runUntil(() => driver.callsOf('runTrainingJob').length === 1)
  await driver.advance(86_400_000)

  assert.equal(driver.callsOf('runTrainingJob').length, 1, 'the second slice waits')
  // The base policy's.
  assert.equal(driver.callsOf('publishPolicy').length, 1)
  const { waits } = await job.query<WorkflowWaits>('blockers')
  assert.match(waits[0]?.doing ?? '', /paused by an alarm, rft, iteration 1: grad_norm is 200/)

  assert.equal((await job.update<RunProgress>('resume')).paused, false)
  assert.equal((await job.result<TrainAgentResult>()).policy, policyRef(3).version)
  assert.equal(driver.callsOf('runTrainingJob').length, 3)
})

test('a pause during an evaluation holds before the next stage', async () => {
  let evaluating = false
  const { driver, job } = await train({
    summarizeEvaluation: ({ name, policy }) => {
      evaluating = true
      return {
        score: { name, policy: policy.version, passAt1: 0.5, sem: 0.1, tasks: 2, attempts: 2 },
        evaluation: { key: name, sha256: SHA, bytes: 1 },
      }
    },
  })
  await driver.runUntil(() => evaluating)
  await job.update('pause')
  await driver.advance(86_400_000)

  assert.deepEqual(idsOf(driver, 'rejectionFineTune'), [])
  const progress = await job.query<RunProgress>('progress')
  assert.equal(progress.paused, true)
  assert.match(progress.waitingFor?.what ?? '', /paused before/)

  await job.update('resume')
  assert.equal((await job.result<TrainAgentResult>()).stages.length, 4)
})

test('stopAfterIteration reaches the open stage and later stages', async () => {
  let open = false
  const plan = { ...PLAN, rft: false, stages: [{ name: 'dapo-1', maxIterations: 50 }] }
  const { driver, job } = await train(
    {
      runTrainingJob: ({ policy }) => {
        open = true
        return takes(60_000, { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA })
      },
    },
    plan,
  )
  await driver.runUntil(() => open)
  const progress = await job.update<RunProgress>('stopAfterIteration', { iteration: 2 })
  assert.equal(progress.stopAfterIteration, 2)
  const result = await job.result<TrainAgentResult>()

  assert.equal(result.policy, policyRef(2).version)
  assert.equal(driver.callsOf('runTrainingJob').length, 2)
})

for (const request of [{ iteration: 0 }, { iteration: 1.5 }, { iteration: 'two' }, undefined]) {
  test(`stopAfterIteration refuses ${JSON.stringify(request)} and changes nothing`, async () => {
    const { driver, job } = await train()
    await driver.runUntil(() => driver.callsOf('resolveRecipe').length === 1)
    await assert.rejects(job.update('stopAfterIteration', request), (error) => {
      assert.ok(error instanceof ApplicationFailure)
      assert.equal(error.type, 'Config.Invalid')
      return true
    })
    assert.equal((await job.query<RunProgress>('progress')).stopAfterIteration, null)
  })
}

test('the query progress returns the phase, the scores so far and what the run waits for', async () => {
  let training = false
  const { driver, job } = await train({
    runTrainingJob: ({ policy }) => {
      training = true
      return takes(60_000, { policy: policyRef(policy.globalStep + 1), steps: 1, loss: 0, jobKey: SHA })
    },
  })
  await driver.runUntil(() => training)
  const progress = await job.query<RunProgress>('progress')

  assert.equal(progress.run, PLAN.run)
  assert.equal(progress.phase, 'rejection fine-tuning')
  assert.deepEqual(
    progress.scores.map(({ name }) => name),
    ['base'],
  )
  assert.equal(progress.waitingFor?.what, 'rejection fine-tuning')
  assert.ok(Date.parse(progress.waitingFor?.since ?? '') <= driver.nowMs)
})

const BAD_INPUT = [
  { activity: 'resolveRecipe', code: 'Config.NotFound' },
  { activity: 'resolveRecipe', code: 'Config.Invalid' },
  { activity: 'prepareSuite', code: 'Task.Invalid' },
  { activity: 'advanceEpisode', code: 'Model.NoTokenIds' },
  { activity: 'runTrainingJob', code: 'Trainer.BadSpec' },
] as const

for (const { activity, code } of BAD_INPUT) {
  test(`${code} in ${activity} ends the run with that code without a retry and releases the policies`, async () => {
    const { driver, job } = await train({
      [activity]: () => {
        throw failureOf(code, 'what to change')
      },
    })
    await assert.rejects(job.result(), (error) => {
      assert.ok(error instanceof ApplicationFailure)
      assert.equal(error.type, code)
      assert.match(error.message, /what to change/)
      return true
    })
    await driver.runToIdle()

    assert.ok(
      driver.callsOf(activity).every(({ attempt }) => attempt === 1),
      'no second attempt',
    )
    assert.equal(driver.callsOf('releasePolicies').length, activity === 'resolveRecipe' ? 0 : 1)
    assert.equal(driver.callsOf('closeSandbox').length, driver.callsOf('openSandbox').length)
    assert.ok(driver.runs.every(({ status }) => status !== 'open'))
  })
}

test('every suite is compared with the training one before the first gate, and a shared task stops the run', async () => {
  const plan = { ...PLAN, suites: ['may'] }
  const hashOf = (which: string): string => which.padEnd(64, '0')
  const { driver, job } = await train(
    {
      prepareSuite: ({ which }) => ({ suite: hashOf(which), name: which, tasks: 2 }),
      requireDisjoint: () => {
        throw failureOf('Suite.Overlap', 'a__b-1 is a__b-1 of may')
      },
    },
    plan,
  )
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Suite.Overlap')
    return true
  })
  const hashes = { run: PLAN.run, train: hashOf('train'), evaluated: [hashOf('heldOut'), hashOf('may')] }
  assert.deepEqual(
    driver.callsOf('requireDisjoint').map(({ input }) => input),
    [hashes],
  )
  assert.equal(driver.callsOf('prepareSuite').length, 3)
  assert.equal(driver.callsOf('gateTask').length, 0)
})

test('a run without training does not compare its suites', async () => {
  const { driver, job } = await train({}, { ...PLAN, rft: false, stages: [] })
  await job.result()
  assert.equal(driver.callsOf('requireDisjoint').length, 0)
  assert.equal(driver.callsOf('prepareSuite').length, 1 + 1)
})

test('a suite without a task that passes its gate stops the run before any sampling', async () => {
  const { driver, job } = await train({ closeGate: () => ({ admitted: 0, refused: 2 }) })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Task.GateFailed')
    return true
  })
  assert.equal(driver.callsOf('openSandbox').length, 0)
})

test('a cancelled run cancels the open stage with its episodes, closes sandboxes and releases policies', async () => {
  const { driver, job } = await train({ advanceEpisode: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 4)
  job.cancel()
  await assert.rejects(job.result(), CancelledFailure)
  await driver.runToIdle()

  assert.equal(driver.callsOf('closeSandbox').length, 4)
  assert.equal(driver.callsOf('releasePolicies').length, 1)
  assert.ok(driver.runs.every(({ status }) => status !== 'open'))
})

for (const [how, said] of [
  ['terminate', 'terminated'],
  ['cancel', 'cancelled'],
] as const) {
  test(`a stage that a person ends by ${how} fails the run, which names it and says how to continue`, async () => {
    const { driver, job } = await train({ advanceEpisode: () => neverEnds() })
    await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 4)
    driver.handle(`train/${PLAN.run}/eval/base`)[how]()
    await assert.rejects(job.result(), (error: ApplicationFailure) => {
      assert.equal(error.type, 'Run.EndedByHand')
      assert.match(
        error.message,
        new RegExp(`The workflow train/${PLAN.run}/eval/base was ${said}; start the run again`),
      )
      return true
    })
    await driver.runToIdle()
    assert.equal(driver.callsOf('releasePolicies').length, 1)
  })
}

test('a run cancelled while it is paused ends at once', async () => {
  const { driver, job } = await train()
  await driver.runUntil(() => driver.callsOf('resolvePolicy').length === 1)
  await job.update('pause')
  await driver.advance(60_000)
  job.cancel()
  await assert.rejects(job.result(), CancelledFailure)
  await driver.runToIdle()

  assert.ok(driver.runs.every(({ status }) => status !== 'open'))
})

// The story: a run ends amid its second stage and is started again under its name.
test('a restarted run plays and publishes nothing that is recorded and continues the open stage', async () => {
  const score = (name: string, step: number) =>
    ({ name, policy: policyRef(step).version, passAt1: 0.25, sem: 0.1, tasks: 2, attempts: 2 }) satisfies StageScore
  const recalled = {
    scores: [score('base', 0), score('rft', 2), score('dapo-1', 4)],
    rft: policyRef(2),
    stages: [
      { name: 'dapo-1', policy: policyRef(4), iteration: 3, isDone: true },
      { name: 'dapo-2', policy: policyRef(9), iteration: 1, isDone: false },
    ],
  }
  const { driver, job } = await train({
    resolveRecipe: () => ({ ...PLAN, recalled }),
    prepareSuite: ({ which }) => ({ suite: SHA, name: which, tasks: 2, gated: true }),
  })
  const result = await job.result<TrainAgentResult>()
  assert.deepEqual(
    driver.runs
      .map(({ type, workflowId }) => [type, workflowId])
      .filter(([type]) => type !== 'episode' && type !== 'promptGroup' && type !== 'rollout'),
    [
      ['trainAgent', '8d1f-from-the-ui'],
      ['reinforce', `train/${PLAN.run}/dapo-2`],
      ['evaluate', `train/${PLAN.run}/eval/rl`],
    ],
  )
  assert.deepEqual(
    driver.callsOf('publishPolicy').map(({ input }) => (input as { policy: { globalStep: number } }).policy.globalStep),
    [9, 10],
  )
  assert.deepEqual(
    result.stages.map(({ name, policy }) => [name, policy]),
    [
      ['base', policyRef(0).version],
      ['rft', policyRef(2).version],
      ['dapo-1', policyRef(4).version],
      ['rl', policyRef(10).version],
    ],
  )
})

test('recorded stages without evaluations are only published and evaluated, not trained', async () => {
  const stages = PLAN.stages.map(({ name }, at) => ({ name, policy: policyRef(4 + at), iteration: 3, isDone: true }))
  const { driver, job } = await train({
    resolveRecipe: () => ({ ...PLAN, recalled: { scores: [], rft: policyRef(2), stages } }),
  })
  await job.result<TrainAgentResult>()
  const published = driver
    .callsOf('publishPolicy')
    .map(({ input }) => (input as { policy: { globalStep: number } }).policy.globalStep)
  assert.deepEqual(published, [0, 2, 4, 5])
  assert.equal(driver.callsOf('runTrainingJob').length, 0)
})
