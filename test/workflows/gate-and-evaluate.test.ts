import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/common'
import type {
  EvaluateResult,
  GateSuiteResult,
  GateTasksResult,
  RunProgress,
  WorkCount,
} from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes } from '../support/activity-script.ts'
import { artifact, PLAN, policyRef, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriverOptions } from '../support/workflow-driver.ts'

const SUITE = { suite: SHA, name: 'train', tasks: 40 }

async function gate(
  overrides: ActivityTable<AllActivities> = {},
  options: Partial<WorkflowDriverOptions<AllActivities>> = {},
  gateRepeats = 2,
) {
  const driver = await createWorkflowDriver({
    ...options,
    activities: { ...scriptedPipeline({ tasks: SUITE.tasks }), ...overrides },
  })
  return { driver, job: driver.start('gateTasks', { plan: { ...PLAN, gateRepeats }, suite: SUITE }) }
}

type GateCall = { index: number; step: number }

test('each task is gated once, and the verdict comes from the records', async () => {
  const { driver, job } = await gate()
  const result = await job.result<GateTasksResult>()

  assert.deepEqual(result, { suite: SHA, admitted: 40, refused: 0 })
  const indexes = driver.callsOf('gateTask').map(({ input }) => (input as GateCall).index)
  assert.deepEqual(
    indexes.toSorted((a, b) => a - b),
    Array.from({ length: 40 }, (_, index) => index),
  )
  assert.equal(driver.callsOf('closeGate').length, 1)
})

test('a task with a long gate continues step by step until it is done', async () => {
  const { driver, job } = await gate({
    gateTask: ({ index, step }) => ({ done: index !== 5 || step === 3, ok: true }),
  })
  await job.result()

  const ofFive = driver.callsOf('gateTask').filter(({ input }) => (input as GateCall).index === 5)
  assert.deepEqual(
    ofFive.map(({ input }) => (input as GateCall).step),
    [1, 2, 3],
  )
  assert.equal(driver.callsOf('gateTask').length, 42)
})

test('an open gate reports its finished and refused tasks, also after continue-as-new', async () => {
  const { driver, job } = await gate(
    { gateTask: ({ index }) => (index === 39 ? neverEnds() : { done: true, ok: index % 10 !== 0 }) },
    { suggestContinueAsNewAfterEvents: 120 },
  )
  await driver.runUntil(() => driver.callsOf('gateTask').length === 40 && driver.runs.length > 1)
  await driver.advance(1_000)
  assert.deepEqual(await job.query<WorkCount>('progress'), { unit: 'tasks', done: 39, total: 40, failed: 4 })
})

test('a gate near the history limit continues as new, with every task gated once', async () => {
  const { driver, job } = await gate({}, { suggestContinueAsNewAfterEvents: 120 })
  await job.result()

  assert.ok(driver.runs.length > 1, 'it continued')
  assert.ok(driver.runs.slice(0, -1).every(({ status }) => status === 'continued-as-new'))
  assert.equal(driver.callsOf('gateTask').length, 40)
  assert.equal(driver.callsOf('closeGate').length, 1)
})

/** Tasks under way at each start of one, their largest number, and how each was called. */
function inFlight() {
  const seen = { now: 0, most: 0 }
  const gateTask: ActivityTable<AllActivities>['gateTask'] = () => {
    seen.now += 1
    seen.most = Math.max(seen.most, seen.now)
    return takes(60_000, () => {
      seen.now -= 1
      return { done: true, ok: true }
    })
  }
  return { seen, gateTask }
}

for (const [name, gateWidth, measured, expected] of [
  ['the recipe states a width: so many tasks are under way, and no host is counted', 7, 99, 7],
  ['the recipe leaves it open: the width is what the hosts can take', null, 24, 24],
  ['a run of before widths were stated goes on with sixteen', undefined, 99, 16],
] as const) {
  test(name, async () => {
    const { seen, gateTask } = inFlight()
    const driver = await createWorkflowDriver({
      activities: { ...scriptedPipeline({ tasks: 40 }), gateTask, gateWidth: () => ({ width: measured }) },
    })
    const plan = { ...PLAN, ...(gateWidth === undefined ? {} : { gateWidth }) }
    await driver.start('gateTasks', { plan, suite: SUITE }).result()
    assert.equal(seen.most, expected)
    assert.equal(driver.callsOf('gateTask').length, 40)
    assert.equal(driver.callsOf('gateWidth').length, gateWidth === null ? 1 : 0)
  })
}

test('a suite of 620 tasks is gated in three parts that share the width, each task once, and is closed once', async () => {
  const suite = { ...SUITE, tasks: 620 }
  const { seen, gateTask } = inFlight()
  const driver = await createWorkflowDriver({
    suggestContinueAsNewAfterEvents: 700,
    activities: {
      ...scriptedPipeline({ tasks: suite.tasks }),
      gateTask: (input, call) =>
        (input as GateCall).index === 300 ? { done: true, ok: false } : gateTask?.(input, call),
      gateWidth: () => ({ width: 60 }),
    },
  })
  const job = driver.start(
    'gateTasks',
    { plan: { ...PLAN, gateWidth: null }, suite },
    { workflowId: 'train/r/gate/train' },
  )
  await driver.runUntil(() => driver.callsOf('closeGate').length === 1)
  assert.match(await job.currentDetails(), /gated 620 of 620 tasks of train, 1 refused/)
  assert.deepEqual(await job.result<GateTasksResult>(), { suite: SHA, admitted: 620, refused: 0 })
  const indexes = driver.callsOf('gateTask').map(({ input }) => (input as GateCall).index)
  assert.deepEqual(
    indexes.toSorted((a, b) => a - b),
    Array.from({ length: 620 }, (_, index) => index),
  )
  assert.equal(seen.most, 60)
  assert.equal(driver.callsOf('closeGate').length, 1)
  const parts = driver.runs.filter(({ workflowId }) => workflowId.includes('/part/'))
  assert.deepEqual(
    [...new Set(parts.map(({ workflowId }) => workflowId))].toSorted(),
    [0, 1, 2].map((part) => `train/r/gate/train/part/000${part}`),
  )
  assert.ok(parts.length > 3, 'a part continued as new')
})

test('a gate in parts reports finished parts and the progress of each open part', async () => {
  const suite = { ...SUITE, tasks: 620 }
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ tasks: suite.tasks }),
      gateTask: ({ index }) => (index === 610 ? neverEnds() : { done: true, ok: index !== 600 }),
    },
  })
  const job = driver.start(
    'gateTasks',
    { plan: { ...PLAN, gateWidth: 60 }, suite },
    { workflowId: 'train/r/gate/train' },
  )
  await driver.advance(60_000)
  const parts = [job, driver.handle('train/r/gate/train/part/0002')]
  assert.deepEqual(await Promise.all(parts.map((part) => part.query<WorkCount>('progress'))), [
    { unit: 'tasks', done: 500, total: 620, failed: 0 },
    { unit: 'tasks', done: 119, total: 120, failed: 1 },
  ])
})

test('a part that meets a broken recipe fails the gate with its code, and no other part continues', async () => {
  const suite = { ...SUITE, tasks: 620 }
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ tasks: suite.tasks }),
      gateTask: ({ index }) => {
        if (index === 251) throw failureOf('Sandbox.RuntimeMissing')
        return takes(60_000, () => ({ done: true, ok: true }))
      },
    },
  })
  const job = driver.start('gateTasks', { plan: { ...PLAN, gateWidth: 30 }, suite })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Sandbox.RuntimeMissing')
    return true
  })
  await driver.runToIdle()
  assert.ok(driver.runs.every(({ status }) => status !== 'open'))
  assert.ok(driver.callsOf('gateTask').length < 100)
  assert.equal(driver.callsOf('closeGate').length, 0)
})

async function gateAlone(
  overrides: ActivityTable<AllActivities> = {},
  options: Partial<WorkflowDriverOptions<AllActivities>> = {},
) {
  const driver = await createWorkflowDriver({
    ...options,
    activities: { ...scriptedPipeline({ tasks: 40 }), ...overrides },
  })
  const input = { recipe: 'demo', overrides: { data: { gate: { repeats: 5 } } } }
  return { driver, job: driver.start('gateSuite', input, { workflowId: 'gate/mine' }) }
}

test('a gate started alone gates every task, also refused ones that the recipe drops, and ends with its report', async () => {
  const { driver, job } = await gateAlone({ gateTask: ({ index }) => ({ done: true, ok: index !== 3 }) })
  const result = await job.result<GateSuiteResult>()

  assert.deepEqual(
    [result.run, result.tasks, result.repeats, result.report.key],
    [PLAN.run, 40, PLAN.gateRepeats, 'gates/report.json'],
  )
  assert.deepEqual(
    driver.callsOf('resolveRecipe').map(({ input }) => {
      const { kind, overrides } = input as { kind: string; overrides: unknown }
      return [kind, overrides]
    }),
    [['gate', { data: { gate: { repeats: 5, refused: 'exclude' } } }]],
  )
  const types = new Set(driver.calls.map(({ type }) => type))
  assert.deepEqual(
    [...types],
    ['resolveRecipe', 'prepareSuite', 'checkImages', 'gateTask', 'closeGate', 'writeGateReport'],
  )
})

test('a gate of thousands of tasks continues as new, resolves its recipe once and reports its progress', async () => {
  const { driver, job } = await gateAlone(
    { gateTask: ({ index }) => ({ done: true, ok: index % 2 === 0 }) },
    { suggestContinueAsNewAfterEvents: 120 },
  )
  await driver.runUntil(() => driver.callsOf('writeGateReport').length === 1)
  const progress = await job.query<RunProgress>('progress')
  assert.deepEqual([progress.run, progress.phase], [PLAN.run, 'writing the report'])
  await job.result()

  assert.ok(driver.runs.length > 1, 'it continued')
  assert.equal(driver.callsOf('gateTask').length, 40)
  assert.equal(driver.callsOf('resolveRecipe').length, 1)
  assert.equal(driver.callsOf('prepareSuite').length, 1)
})

test('a cancelled gate alone stops its open tasks and writes no report', async () => {
  const { driver, job } = await gateAlone({ gateTask: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('gateTask').length === 16)
  job.cancel()
  await assert.rejects(job.result(), CancelledFailure)
  assert.equal(driver.callsOf('gateTask').length, 16)
  assert.equal(driver.callsOf('writeGateReport').length, 0)
})

test('an invalid task ends the gate with its code', async () => {
  const { job } = await gate({
    gateTask: () => {
      throw failureOf('Task.Invalid')
    },
  })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Task.Invalid')
    return true
  })
})

test('a failing task ends a gate: open tasks finish and no other starts', async () => {
  let ended = 0
  const { driver, job } = await gate({
    gateTask: ({ index }) => {
      if (index === 3) throw failureOf('Task.Invalid')
      return takes(60_000, () => {
        ended += 1
        return { done: true, ok: true }
      })
    },
  })
  await assert.rejects(job.result(), ApplicationFailure)
  assert.deepEqual([driver.callsOf('gateTask').length, ended], [16, 15])
})

test('a cancelled gate stops its open checks', async () => {
  const { driver, job } = await gate({ gateTask: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('gateTask').length === 16)
  job.cancel()
  await assert.rejects(job.result(), CancelledFailure)
  assert.equal(driver.callsOf('gateTask').length, 16)
})

async function evaluate(input: Record<string, unknown>, overrides: ActivityTable<AllActivities> = {}) {
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ tasks: 3, groupSize: 2, steps: 1 }), ...overrides },
  })
  return { driver, job: driver.start('evaluate', input, { workflowId: 'nightly-2026-01-01T00:00:00Z' }) }
}

test('an evaluation started alone resolves, gates, publishes, scores, reports and releases its policy', async () => {
  const { driver, job } = await evaluate({ recipe: 'nightly' })
  const result = await job.result<EvaluateResult>()

  assert.equal(result.run, PLAN.run)
  assert.equal(result.passAt1, 0.5)
  assert.equal(result.policy, policyRef(0).version)
  const types = driver.calls.map(({ type }) => type)
  const order = ['resolveRecipe', 'publishPolicy', 'openSandbox', 'summarizeEvaluation', 'releasePolicies']
  assert.deepEqual(
    order.map((type) => types.indexOf(type)).toSorted((a, b) => a - b),
    order.map((type) => types.indexOf(type)),
  )
  assert.equal(types.at(-1), 'releasePolicies')
  assert.equal(driver.callsOf('runTrainingJob').length, 0)
  assert.deepEqual(
    driver.callsOf('resolveRecipe').map(({ input }) => (input as { kind: string }).kind),
    ['eval'],
  )
})

test('an evaluation started alone plays additional suites, and returns the score of the held-out one', async () => {
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ plan: { ...PLAN, suites: ['may', 'june'] }, tasks: 3, steps: 1 }),
  })
  const job = driver.start('evaluate', { recipe: 'nightly' }, { workflowId: 'nightly-2026-01-01T00:00:00Z' })
  const result = await job.result<EvaluateResult>()

  assert.deepEqual(
    driver.callsOf('summarizeEvaluation').map(({ input }) => (input as { name: string }).name),
    ['nightly.may', 'nightly.june', 'nightly'],
  )
  assert.equal(result.name, 'nightly')
  assert.equal(driver.callsOf('closeGate').length, 3)
  assert.equal(driver.callsOf('publishPolicy').length, 1)
})

test('the details show a score of one task without an error bar', async () => {
  const detailsOf = async (tasks: number): Promise<string> => {
    const driver = await createWorkflowDriver({ activities: scriptedPipeline({ tasks, steps: 1 }) })
    const job = driver.start('evaluate', { recipe: 'mini' }, { workflowId: `of-${tasks}` })
    await driver.runUntil(() => driver.callsOf('writeReport').length === 1)
    const details = await job.currentDetails()
    await job.result()
    return details
  }
  assert.match(await detailsOf(1), /pass@1 \*\*0\.500 \(one task: no SEM\)\*\* \(n = 1,/)
  assert.match(await detailsOf(3), /pass@1 \*\*0\.500 ± 0\.100\*\* \(n = 3,/)
})

test('an evaluation started alone has the name of its recipe, and its children are below it', async () => {
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ plan: { ...PLAN, evaluation: 'mini', suites: ['may'] }, tasks: 1, steps: 1 }),
  })
  const result = await driver
    .start('evaluate', { recipe: 'mini' }, { workflowId: 'from-the-ui' })
    .result<EvaluateResult>()

  assert.equal(result.name, 'mini')
  assert.deepEqual(
    driver.runs.map(({ workflowId }) => workflowId).filter((id) => !id.includes('/task/')),
    [
      'from-the-ui',
      `eval/${PLAN.run}/gate/held-out`,
      `eval/${PLAN.run}/gate/may`,
      `eval/${PLAN.run}/eval-mini.may/0000`,
      `eval/${PLAN.run}/eval-mini/0000`,
    ],
  )
})

test('an evaluation that an earlier version started keeps its name and the ids of its children', async () => {
  const { driver, job } = await evaluate({})
  assert.equal((await job.result<EvaluateResult>()).name, 'nightly')
  assert.deepEqual(
    driver.runs.filter(({ type }) => type === 'rollout').map(({ workflowId }) => workflowId),
    [`train/${PLAN.run}/eval-nightly/0000`],
  )
})

test('an evaluation of a suite without a passing task ends before any policy is published', async () => {
  const { driver, job } = await evaluate({}, { closeGate: () => ({ admitted: 0, refused: 3 }) })
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Task.GateFailed')
    return true
  })
  assert.equal(driver.callsOf('publishPolicy').length, 0)
})

test('an evaluation of a missing policy fails before its gates', async () => {
  const { driver, job } = await evaluate(
    {},
    {
      resolvePolicy: () => {
        throw failureOf('Config.NotFound', 'no such policy')
      },
    },
  )
  await assert.rejects(job.result(), /no such policy/)
  assert.equal(driver.callsOf('gateTask').length, 0)
})

for (const [type, further, expected] of [
  ['evaluate', ['may', 'june'], ['heldOut', 'may', 'june']],
  ['gateSuite', [], ['heldOut']],
  ['trainAgent', ['may'], ['heldOut', 'may', 'train']],
] as const) {
  test(`${type}: images of all suites are checked once before the first gate, and a missing one ends the run`, async () => {
    const isMissing = { now: true }
    const activities: ActivityTable<AllActivities> = {
      ...scriptedPipeline({ plan: { ...PLAN, suites: [...further] }, steps: 1 }),
      prepareSuite: ({ which }) => ({ suite: which, name: which, tasks: 2 }),
      checkImages: () => {
        if (isMissing.now) throw failureOf('Sandbox.ImageMissing', '3 of the 60 images of may are missing')
        return { images: 60, lacking: 0, asked: 0, missing: 0, unknown: 0 }
      },
    }
    const driver = await createWorkflowDriver({ activities })
    await assert.rejects(driver.start(type, {}).result(), (error) => {
      assert.ok(error instanceof ApplicationFailure)
      assert.deepEqual([error.type, error.message], ['Sandbox.ImageMissing', '3 of the 60 images of may are missing'])
      return true
    })
    assert.deepEqual([driver.callsOf('gateTask').length, driver.callsOf('publishPolicy').length], [0, 0])
    assert.deepEqual(
      driver.callsOf('checkImages').map(({ input }) => input),
      [{ run: PLAN.run, suites: expected }],
    )

    isMissing.now = false
    const again = await createWorkflowDriver({ activities })
    await again.start(type, {}).result()
    assert.equal(again.callsOf('checkImages').length, 1)
    const order = again.calls.map(({ type: called }) => called)
    assert.ok(order.indexOf('checkImages') < order.indexOf('gateTask'))
    assert.ok(order.lastIndexOf('prepareSuite', order.indexOf('gateTask')) < order.indexOf('checkImages'))
  })
}

test('a failure of the image check itself, by an absent engine or an older host, does not end the evaluation', async () => {
  const unknown = ApplicationFailure.create({ type: 'NotFoundError', message: 'checkImages is not registered' })
  for (const failure of [failureOf('Sandbox.EngineUnavailable'), unknown]) {
    const { driver, job } = await evaluate(
      {},
      {
        checkImages: () => {
          throw failure
        },
      },
    )
    await job.result()
    assert.ok(driver.callsOf('gateTask').length > 0)
  }
})

test('the images of suites that are published with their gates are not checked', async () => {
  const { driver, job } = await evaluate(
    {},
    { prepareSuite: () => ({ suite: SHA, name: 'held-out', tasks: 3, gated: true }) },
  )
  await job.result()
  assert.equal(driver.callsOf('checkImages').length, 0)
})

test('an evaluation that is cancelled during the image check ends as cancelled', async () => {
  const { driver, job } = await evaluate({}, { checkImages: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('checkImages').length === 1)
  job.cancel()
  await assert.rejects(job.result(), CancelledFailure)
  assert.equal(driver.callsOf('gateTask').length, 0)
})

test('every episode of an evaluation is marked as one', async () => {
  const { driver, job } = await evaluate({})
  await job.result()

  const episodes = driver.runs.filter(({ type }) => type === 'episode')
  assert.equal(episodes.length, 6)
  assert.ok(episodes.every(({ searchAttributes }) => searchAttributes.Evaluation === true))
})

test('an evaluation whose policy cannot be served releases its leases and fails with the code', async () => {
  const { driver, job } = await evaluate(
    {},
    {
      publishPolicy: () => {
        throw failureOf('Model.CanaryMismatch')
      },
    },
  )
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.equal(error.type, 'Model.CanaryMismatch')
    return true
  })
  assert.equal(driver.callsOf('releasePolicies').length, 1)
  assert.equal(driver.callsOf('openSandbox').length, 0)
})

test('two evaluations in one run do not collide in their workflow ids', async () => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline({ steps: 1 }) })
  for (const name of ['base', 'rft']) {
    const input = { child: { plan: PLAN, name, policy: policyRef(1) } }
    await driver.start('evaluate', input, { workflowId: `train/${PLAN.run}/eval/${name}` }).result()
  }
  const ids = driver.runs.map(({ workflowId }) => workflowId)
  assert.equal(new Set(ids).size, ids.length)
})

const NIGHT = { ...PLAN, evaluation: 'nightly-swe-rebench', nights: true as const }

test('a nightly evaluation of all promotions plays the oldest first under its own name and returns the newest', async () => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ plan: { ...NIGHT, policies: 'kept' }, tasks: 2, steps: 1 }),
      writeReport: () => takes(60_000, { html: artifact('report.html'), json: artifact('report.json') }),
      keptPolicies: () => ({ policies: [policyRef(3), policyRef(2), policyRef(1)] }),
      recordNight: ({ role }) => ({
        verdicts:
          role === 'main'
            ? [
                {
                  against: 'last' as const,
                  before: null,
                  outcome: 'cannot-exclude' as const,
                  statement: 'cannot exclude a regression',
                  difference: null,
                  tasks: { common: 2, onlyBefore: 0, onlyAfter: 0, otherRows: 0 },
                },
              ]
            : [],
      }),
    },
  })
  const job = driver.start('evaluate', { recipe: 'nightly-swe-rebench', series: 'nightly' }, { workflowId: 'night' })
  await driver.runUntil(() => driver.callsOf('writeReport').length === 1)
  const details = await job.currentDetails()
  const result = await job.result<EvaluateResult>()

  const nights = driver.callsOf('recordNight').map(({ input }) => input as Record<string, string>)
  assert.deepEqual(
    nights.map(({ name, role, series }) => [name, role, series]),
    [
      [`nightly-swe-rebench-${policyRef(1).version}`, `policy:${policyRef(1).version}`, 'nightly'],
      [`nightly-swe-rebench-${policyRef(2).version}`, `policy:${policyRef(2).version}`, 'nightly'],
      ['nightly-swe-rebench', 'main', 'nightly'],
    ],
  )
  assert.deepEqual([result.name, result.policy], ['nightly-swe-rebench', policyRef(3).version])
  assert.equal(result.verdicts?.[0]?.outcome, 'cannot-exclude')
  assert.match(details, /Against the last night, nightly-swe-rebench: \*\*cannot exclude\*\* · cannot exclude/)
  assert.equal(driver.callsOf('resolvePolicy').length, 0)
  assert.equal(driver.callsOf('publishPolicy').length, 3)
})

test('a nightly evaluation finds the split of its newest month, and can be found by it', async () => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ plan: NIGHT, tasks: 1, steps: 1 }),
      prepareSuite: () => ({ suite: SHA, name: 'held-out', tasks: 1, split: 'nebius/SWE-rebench-leaderboard/2026_04' }),
    },
  })
  const job = driver.start('evaluate', {}, { workflowId: 'night' })
  await job.result()
  const root = driver.runs.find(({ workflowId }) => workflowId === 'night')
  assert.equal(root?.searchAttributes.Split, 'nebius/SWE-rebench-leaderboard/2026_04')
})

test('a nightly evaluation without a promoted policy ends with one statement without a stack', async () => {
  const { job } = await evaluate(
    {},
    {
      resolvePolicy: () => {
        throw failureOf('Config.NotFound', 'No policy has been promoted yet, so there is none to evaluate.')
      },
    },
  )
  await assert.rejects(job.result(), (error) => {
    assert.ok(error instanceof ApplicationFailure)
    assert.deepEqual(
      [error.type, error.message, error.stack],
      ['Config.NotFound', 'No policy has been promoted yet, so there is none to evaluate.', ''],
    )
    return true
  })
})

test('refuses a series that cannot be part of a key before anything starts', async () => {
  const { driver, job } = await evaluate({ series: '../other' })
  await assert.rejects(job.result(), /Expected series to be .* got "\.\.\/other"/)
  assert.deepEqual(driver.calls, [])
})
