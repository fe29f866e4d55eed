/**
 * The story: a person resets the root of a run in the Temporal UI. The server starts the root again at an earlier event and leaves its
 * children alone. A gate or a rollout of before has the id that the root wants to start, and plays on for hours. The same holds for the
 * groups of a rollout and the episodes of a group.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EvaluateResult } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, neverEnds, takes } from '../support/activity-script.ts'
import { PLAN, ROLLOUT, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver } from '../support/workflow-driver.ts'

const RUN = { ...PLAN, evaluation: 'nightly' }
const HOUR_MS = 3_600_000

/** An evaluation whose root was reset while its child of this type plays. */
async function resetRoot(type: 'gateTasks' | 'rollout', overrides: ActivityTable<AllActivities>) {
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ plan: RUN, tasks: 2, groupSize: 1 }), ...overrides },
  })
  const start = () => driver.start('evaluate', { recipe: 'nightly' }, { workflowId: `eval/${PLAN.run}` })
  const first = start()
  await driver.runUntil(() => driver.runs.some((run) => run.type === type), type)
  const child = driver.runs.find((run) => run.type === type)
  assert.ok(child)
  first.terminate()
  await driver.runToIdle()
  const earlier = driver.start(type, child.input, { workflowId: child.workflowId })
  await driver.advance(1_000)
  const played = () => driver.callsOf('gateTask').length
  return { driver, earlier, again: start(), before: played(), played }
}

test('a gate of before goes on for half a day: the run waits for it, then reads what it found, and continues', async () => {
  let isGated = false
  const { again, earlier, before, played } = await resetRoot('gateTasks', {
    gateTask: () => (isGated ? { done: true, ok: true } : takes(12 * HOUR_MS, { done: true, ok: true })),
    closeGate: () => {
      isGated = true
      return { admitted: 2, refused: 0 }
    },
  })
  assert.equal((await again.result<EvaluateResult>()).run, PLAN.run)
  assert.equal(earlier.isOpen, false)
  // The gate of the run itself asks for each task once more, which its records answer.
  assert.equal(played(), before + 2)
  assert.ok(again.describe().events < 700, `${again.describe().events} events`)
})

for (const type of ['gateTasks', 'rollout'] as const) {
  test(`the run is cancelled while it waits for a ${type} of before: that one is cancelled too, and does not play for days`, async () => {
    const { driver, again, earlier } = await resetRoot(type, {
      gateTask: () => (type === 'gateTasks' ? takes(48 * HOUR_MS, { done: true, ok: true }) : { done: true, ok: true }),
      advanceEpisode: () => takes(48 * HOUR_MS, { turns: 8, disposition: 'submitted' }),
    })
    await driver.advance(10 * 60_000)
    again.cancel()
    await assert.rejects(again.result())
    await driver.advance(5 * 60_000)
    assert.equal(earlier.isOpen, false)
    assert.deepEqual(
      driver.runs.filter(({ status }) => status === 'open').map(({ workflowId }) => workflowId),
      [],
    )
  })
}

const PLAYED = { turns: 8, disposition: 'submitted' } as const
const TASK = 'task-0000'
const GRADED = { episode: 'e', disposition: 'submitted', verdict: 'resolved', turns: 8, failure: null } as const

/** A rollout, or a group, that was reset: its only child plays on under the id that it needs. */
async function resetParent(type: 'rollout' | 'promptGroup', overrides: ActivityTable<AllActivities> = {}) {
  const { run, stage, iteration, suite, policy } = ROLLOUT
  const group = { run, stage, iteration, policy: policy.version, suite, groupSize: 1, maxReplacements: 0, taskId: TASK }
  const driver = await createWorkflowDriver({
    activities: { ...scriptedPipeline({ tasks: 1, steps: 1 }), ...overrides },
  })
  const groupId = `rollout/task/${TASK}`
  const earlier =
    type === 'rollout'
      ? driver.start('promptGroup', group, { workflowId: groupId })
      : driver.start('episode', { ...group, index: 0 }, { workflowId: `${groupId}/ep/00` })
  const again = () =>
    type === 'rollout'
      ? driver.start('rollout', { ...ROLLOUT, groupSize: 1, tasks: 1 }, { workflowId: 'rollout', isReset: true })
      : driver.start('promptGroup', group, { workflowId: groupId, isReset: true })
  return { driver, earlier, again }
}

const HARD = { paused: true, hard: true, stopAfterIteration: null }
const GO_ON = { paused: false, stopAfterIteration: null }

for (const type of ['rollout', 'promptGroup'] as const) {
  // The story: a run is paused hard, and a person resets a rollout or a group. What that has open holds, and the new execution comes to
  // it only after the end of the pause.
  test(`what a reset ${type} had held under a hard pause goes on after the end of the pause`, async () => {
    const { driver, earlier, again } = await resetParent(type)
    earlier.signal('control', { paused: true, stopAfterIteration: null })
    await driver.advance(1_000)
    const counts = await again().result<{ episodes: number }>()
    assert.equal(counts.episodes, 1)
    assert.equal(earlier.isOpen, false)
  })

  test(`a hard pause begins while a ${type} waits for an earlier execution to close: nothing begins before its end`, async () => {
    const { driver, earlier, again } = await resetParent(type, {
      advanceEpisode: () => (driver.callsOf('closeSandbox').length === 0 ? neverEnds() : PLAYED),
      closeSandbox: () => takes(90_000, undefined),
    })
    await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 1, 'the earlier one plays')
    const parent = again()
    await driver.advance(1_000)
    parent.signal('control', HARD)
    earlier.cancel()
    await driver.advance(3_600_000)
    assert.equal(earlier.isOpen, false)
    assert.equal(driver.callsOf('openSandbox').length, 1)
    parent.signal('control', GO_ON)
    await parent.result()
    assert.equal(driver.callsOf('openSandbox').length, 2)
  })

  test(`a ${type} that was reset waits half a day for what plays under it, and takes its records`, async () => {
    const { driver, earlier, again } = await resetParent(type, {
      advanceEpisode: ({ step }) => takes(4 * HOUR_MS, { ...PLAYED, disposition: step < 3 ? null : 'submitted' }),
      openSandbox: (input) =>
        driver.callsOf('gradeSubmission').length === 0
          ? sandboxHandle(input)
          : { kind: 'result', result: { ...GRADED, recalled: true } },
    })
    await driver.advance(1_000)
    const parent = again()
    assert.equal((await parent.result<{ resolved: number }>()).resolved, 1)
    assert.equal(earlier.isOpen, false)
    assert.equal(driver.callsOf('advanceEpisode').length, 3)
    assert.ok(parent.describe().events < 500, `${parent.describe().events} events`)
  })
}
