/**
 * The story: a person resets the root of a run in the Temporal UI. The server starts the root again at an earlier event and leaves its
 * children alone. A gate or a rollout of before has the id that the root wants to start, and plays on for hours.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EvaluateResult } from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, takes } from '../support/activity-script.ts'
import { PLAN, scriptedPipeline } from '../support/scripted-pipeline.ts'
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
