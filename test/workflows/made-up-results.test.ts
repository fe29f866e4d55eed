/**
 * The story: an activity hangs, and a person completes it by hand (`temporal activity complete --result null`) to get past it. What the
 * person made up must never be graded, trained on or repeated without end.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure } from '@temporalio/common'
import type { PlanIterationInput } from '../../src/contracts/activities.types.ts'
import type { EpisodeResult, ReinforceInput, ResolvedRun } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, takes } from '../support/activity-script.ts'
import {
  artifact,
  EPISODE,
  PLAN,
  policyRef,
  sandboxHandle,
  scriptedPipeline,
  SHA,
} from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver } from '../support/workflow-driver.ts'

const MADE_UP = [null, {}, [], 'done', 0] as const

/** Answers the first call with what a person made up. */
function firstMadeUp(type: string, value: unknown, then: ActivityTable<AllActivities>): ActivityTable<AllActivities> {
  const script = (then as Record<string, (input: unknown, call: unknown) => unknown>)[type]
  let isFirst = true
  return {
    ...then,
    [type]: (input: unknown, call: unknown) => {
      if (!isFirst) return script?.(input, call)
      isFirst = false
      return value
    },
  }
}

for (const value of MADE_UP) {
  const said = JSON.stringify(value)
  for (const type of ['openSandbox', 'advanceEpisode', 'captureSubmission'] as const) {
    test(`${type} completed by hand with ${said}: the episode is placed again, and only a captured patch is graded`, async () => {
      const driver = await createWorkflowDriver({ activities: firstMadeUp(type, value, scriptedPipeline()) })
      const episode = driver.start('episode', EPISODE, { workflowId: 'ep' })
      const { disposition, failure } = await episode.result<EpisodeResult>()

      assert.deepEqual([disposition, failure], ['submitted', null])
      assert.equal(driver.callsOf('openSandbox').length, 2)
      const patches = driver
        .callsOf('gradeSubmission')
        .map(({ input }) => (input as { patch: { key: string } }).patch.key)
      assert.deepEqual(patches, [artifact(`episodes/${EPISODE.run}/${EPISODE.taskId}/7/patch.diff`).key])
    })
  }

  test(`gradeSubmission completed by hand with ${said}: the recorded result of the grader counts`, async () => {
    const recorded = { episode: 'e', disposition: 'submitted', verdict: 'resolved', turns: 16, failure: null } as const
    const driver = await createWorkflowDriver({
      activities: { ...firstMadeUp('gradeSubmission', value, scriptedPipeline()), recordUngraded: () => recorded },
    })
    const episode = driver.start('episode', EPISODE, { workflowId: 'ep' })
    assert.deepEqual(await episode.result(), recorded)
  })
}

const OF_RUNS = [
  'requireDisjoint',
  'promote',
  'writeReport',
  'resolveRecipe',
  'prepareSuite',
  'gateTask',
  'closeGate',
  'resolvePolicy',
  'planIteration',
  'readPlanPage',
  'summarizeEvaluation',
  'buildBatch',
  'runTrainingJob',
] as const

for (const type of OF_RUNS) {
  test(`${type} completed by hand with an impossible result: the run ends with one line that names it`, async () => {
    for (const value of MADE_UP.filter((one) => type !== 'readPlanPage' || !Array.isArray(one))) {
      const pipeline = scriptedPipeline()
      const driver = await createWorkflowDriver({
        activities: firstMadeUp(type, value, {
          ...pipeline,
          openSandbox: (input) => sandboxHandle(input),
        }),
      })
      const run = driver.start('trainAgent', { recipe: 'demo' })
      await assert.rejects(run.result(), (error) => {
        let innermost: unknown = error
        while (innermost instanceof Error && innermost.cause instanceof ApplicationFailure) innermost = innermost.cause
        assert.ok(innermost instanceof ApplicationFailure, String(error))
        assert.equal(innermost.type, 'Run.EndedByHand')
        assert.match(
          innermost.message,
          new RegExp(`^The activity ${type} was completed by hand .* start the run again`),
        )
        return true
      })
      await driver.runToIdle()
      assert.ok(driver.runs.every(({ status }) => status !== 'open'))
    }
  })
}

// The SDK reports the attempt that a person pauses as failed. Of the last attempt nothing is left to be paused.
for (const kind of ['ActivityPause', 'ActivityReset'] as const) {
  test(`${kind} in a last attempt costs an episode a placement, and ends a run with one clear error`, async () => {
    const held = (): never => {
      throw ApplicationFailure.create({ type: kind, message: 'by hand' })
    }
    const driver = await createWorkflowDriver({
      activities: {
        ...scriptedPipeline(),
        advanceEpisode: ({ placement, step }) =>
          placement === 1 ? held() : { turns: step * 8, disposition: 'submitted' },
      },
    })
    const episode = driver.start('episode', EPISODE, { workflowId: 'ep' })
    assert.equal((await episode.result<EpisodeResult>()).failure, null)
    assert.equal(driver.callsOf('openSandbox').length, 2)

    const stopped = await createWorkflowDriver({ activities: { ...scriptedPipeline(), prepareSuite: held } })
    await assert.rejects(stopped.start('trainAgent', {}).result(), (error) => {
      assert.ok(error instanceof ApplicationFailure)
      assert.equal(error.type, 'Run.EndedByHand')
      assert.match(error.message, /^The activity prepareSuite was paused or reset by hand during its last attempt/)
      return true
    })
  })
}

const NIGHT: ResolvedRun = { ...PLAN, evaluation: 'nightly', nights: true, policies: 'kept', gateWidth: null }
const STAGE: ReinforceInput = {
  plan: { ...PLAN, stages: [{ name: 'dapo-1', maxIterations: 2, plateau: true }], evaluateEvery: 1 },
  stageIndex: 0,
  policy: policyRef(0),
  suite: SHA,
}

const WATCH = {
  receiver: { urlVariable: 'ALARMS', secretVariable: null, template: 'json' },
  blockerMinutes: 5,
  runs: 'all',
}

/** Activities that a training run of the plain recipe does not call, each with the workflow that does. */
const ELSEWHERE: readonly [activity: keyof AllActivities, type: string, input: unknown, plan?: ResolvedRun][] = [
  ['gateWidth', 'evaluate', { recipe: 'nightly' }, NIGHT],
  ['keptPolicies', 'evaluate', { recipe: 'nightly' }, NIGHT],
  ['recordNight', 'evaluate', { recipe: 'nightly' }, NIGHT],
  ['writeReport', 'evaluate', { recipe: 'nightly' }, NIGHT],
  ['judgePlateau', 'reinforce', STAGE],
  ['closeGate', 'gateSuite', { recipe: 'demo' }],
  ['writeGateReport', 'gateSuite', { recipe: 'demo' }],
  ['openGrading', 'gradePredictions', { predictions: 'gold', suite: 'nightly:heldOut' }],
  ['gradePatch', 'gradePredictions', { predictions: 'gold', suite: 'nightly:heldOut' }],
  ['closeGrading', 'gradePredictions', { predictions: 'gold', suite: 'nightly:heldOut' }],
  ['readEvaluation', 'readEvaluation', { run: PLAN.run, name: 'base', from: 0 }],
  ['findAlarms', 'watch', WATCH],
  ['sendAlarm', 'watch', WATCH],
]

for (const [type, workflow, input, plan] of ELSEWHERE) {
  test(`${type} of ${workflow} completed by hand with an impossible result: the workflow ends with one line that names it`, async () => {
    for (const value of MADE_UP) {
      const pipeline = scriptedPipeline(plan === undefined ? {} : { plan })
      const driver = await createWorkflowDriver({ activities: firstMadeUp(type, value, pipeline) })
      await assert.rejects(driver.start(workflow, input).result(), (error) => {
        assert.ok(error instanceof ApplicationFailure, String(error))
        assert.deepEqual([error.type, /^The activity (\w+) was/.exec(error.message)?.[1]], ['Run.EndedByHand', type])
        return true
      })
    }
  })
}

// The story: an operator asks for a task to be played again, and the activity that looks for it fails, or is completed by hand.
for (const [said, look] of [
  ['is completed with null', () => null],
  [
    'fails',
    () => {
      throw ApplicationFailure.nonRetryable('gone', 'Artifact.Missing')
    },
  ],
] as const) {
  test(`the look for a task to requeue ${said}: the operator is told, and the rollout goes on`, async () => {
    const pipeline = scriptedPipeline({ plan: NIGHT, tasks: 2 })
    let isLooking = false
    const driver = await createWorkflowDriver({
      activities: {
        ...pipeline,
        advanceEpisode: ({ step }) => takes(60_000, { turns: step * 8, disposition: step < 2 ? null : 'submitted' }),
        readPlanPage: ((input: never, call: never) =>
          isLooking ? look() : (pipeline.readPlanPage as (...args: never[]) => unknown)(input, call)) as never,
      },
    })
    const root = driver.start('evaluate', { recipe: 'nightly' })
    await driver.runUntil(() => driver.callsOf('advanceEpisode').length > 0)
    isLooking = true
    const asked = root.update('requeue', { task: 'task-9999' })
    await driver.advance(20_000)
    assert.match(((await asked) as { note: string }).note, /the plan could not be read/)
    assert.equal((await root.result<{ run: string }>()).run, PLAN.run)
  })
}

// The story: the job of a stage's last iteration is completed by hand with the policy that it began with. Only the planner of the
// evaluation after it reads records, and must know which iteration they have to name.
test('each evaluation of a training run is planned with the iteration that has trained its policy', async () => {
  const plan = { ...PLAN, evaluateEvery: 2, suites: ['further'] }
  const promote = () => ({ number: 1, why: 'always' })
  const driver = await createWorkflowDriver({ activities: { ...scriptedPipeline({ plan }), promote } })
  await driver.start('trainAgent', { recipe: 'demo' }).result()
  const planned = driver.callsOf('planIteration').map(({ input }) => input as PlanIterationInput)
  const after = (stage: string, iteration: number) => ({ stage, iteration })
  assert.deepEqual(
    planned.flatMap((one) => (one.stage.startsWith('eval-') ? [[one.stage, one.after]] : [])),
    [
      ['eval-base', undefined],
      ['eval-base.further', undefined],
      ['eval-rft', after('rft', 0)],
      ['eval-rft.further', after('rft', 0)],
      ['eval-dapo-1-0002', after('dapo-1', 2)],
      ['eval-dapo-1', after('dapo-1', 2)],
      ['eval-dapo-1.further', after('dapo-1', 2)],
      ['eval-rl', after('dapo-2', 1)],
      ['eval-rl.further', after('dapo-2', 1)],
    ],
  )
  assert.ok(planned.every(({ disjoint }) => disjoint === true))
  const [report] = driver.callsOf('writeReport').map(({ input }) => input as { promoted?: true })
  assert.equal(report?.promoted, true)
})
