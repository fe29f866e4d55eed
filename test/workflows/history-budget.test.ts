import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { takes, timesOut } from '../support/activity-script.ts'
import { EPISODE, GROUP, PLAN, policyRef, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

/** Temporal keeps histories for ever in memory, cache and database: content belongs into artifacts, not here. */
const MAX_PAYLOAD_BYTES = 4 * 1024

test('an episode of 80 turns, eight a step, stays under 150 events, 100 KB and 4 KB a payload', async (t) => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline({ steps: 10, turnsPerStep: 8 }) })
  const episode = driver.start('episode', EPISODE, { workflowId: `train/${PLAN.run}/dapo-1/0003/task/x/ep/07` })
  await episode.result()

  const { events, bytes, largestPayload } = episode.describe()
  t.diagnostic(`${events} events, ${bytes} bytes, largest payload ${largestPayload} bytes`)
  assert.equal(driver.callsOf('advanceEpisode').length, 10)
  assert.ok(events <= 150, `${events} events`)
  assert.ok(bytes <= 100 * 1024, `${bytes} bytes`)
  assert.ok(largestPayload <= MAX_PAYLOAD_BYTES, `a payload of ${largestPayload} bytes`)
})

test('an 80-turn episode that loses two sandboxes near its end stays inside the same budget', async (t) => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ steps: 10, turnsPerStep: 8 }),
      // Records let the next placement go on where the lost one stopped: a replay costs one step, not ten.
      advanceEpisode: ({ step, sandbox }) => {
        const placement = Number(sandbox.name.at(-1))
        const turns = Math.min(80, (placement - 1) * 32 + step * 8)
        if (placement < 3 && step === 5) return timesOut('HEARTBEAT')
        return { turns, disposition: turns < 80 ? null : 'submitted' }
      },
    },
  })
  const episode = driver.start('episode', EPISODE)
  await episode.result()

  const { events, bytes } = episode.describe()
  t.diagnostic(`${events} events, ${bytes} bytes`)
  assert.equal(driver.callsOf('openSandbox').length, 3)
  assert.ok(events <= 150, `${events} events`)
  assert.ok(bytes <= 100 * 1024, `${bytes} bytes`)
})

test('a group of sixteen stays under 200 events and 100 KB', async (t) => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline() })
  const group = driver.start('promptGroup', { ...GROUP, groupSize: 16 })
  await group.result()

  const { events, bytes } = group.describe()
  t.diagnostic(`${events} events, ${bytes} bytes`)
  assert.ok(events <= 200, `${events} events`)
  assert.ok(bytes <= 100 * 1024, `${bytes} bytes`)
})

test('trainAgent stays under 300 events, and no payload of the whole run is over 4 KB', async (t) => {
  const driver = await createWorkflowDriver({
    activities: scriptedPipeline({ tasks: 6, groupSize: 3, maxOpenGroups: 3 }),
  })
  const job = driver.start('trainAgent', { recipe: 'demo' }, { workflowId: 'from-the-ui' })
  await job.result()

  const { events, bytes } = job.describe()
  t.diagnostic(`trainAgent ${events} events, ${bytes} bytes`)
  assert.ok(events <= 300, `${events} events`)
  for (const run of driver.runs) {
    assert.ok(run.largestPayload <= MAX_PAYLOAD_BYTES, `${run.type} ${run.workflowId}: ${run.largestPayload} bytes`)
  }
})

test('the root of a long run stays below 2,000 events at four events for each report of a rollout', async (t) => {
  const events: number[] = []
  for (const minutes of [0, 15]) {
    const plan = { ...PLAN, rft: false, stages: [{ name: 'dapo-1', maxIterations: 1 }] }
    const driver = await createWorkflowDriver({
      activities: {
        ...scriptedPipeline({ plan, tasks: 8, groupSize: 1, maxOpenGroups: 1, steps: 1 }),
        advanceEpisode: () => takes(minutes * 60_000, { turns: 8, disposition: 'submitted' }),
      },
    })
    const job = driver.start('trainAgent', { recipe: 'demo' }, { workflowId: 'from-the-ui' })
    await job.result()
    events.push(job.describe().events)
  }
  const reports = 24 - 3
  // In no time one report for each of three rollouts; at a quarter of an hour a task, each of the 24 groups has one.
  const [few = 0, many = 0] = events
  t.diagnostic(`${few} events with few reports, ${many} with 24`)
  assert.ok(many > few, 'reports arrived')
  assert.ok((many - few) / reports <= 4, `${many - few} events for ${reports} reports`)
  // `running-score.test.ts`: at most 350 reports in five weeks.
  assert.ok(few + 350 * 4 < 2_000, `${few} events beside the reports`)
})

test('one iteration of reinforce costs at most 60 events', async (t) => {
  const events: number[] = []
  for (const maxIterations of [3, 5]) {
    const plan = { ...PLAN, stages: [{ name: 'dapo-1', maxIterations }] }
    const driver = await createWorkflowDriver({ activities: scriptedPipeline({ plan, tasks: 1 }) })
    const stage = driver.start('reinforce', { plan, stageIndex: 0, policy: policyRef(0), suite: 's' })
    await stage.result()
    events.push(stage.describe().events)
  }
  const [three = 0, five = 0] = events
  t.diagnostic(`${(five - three) / 2} events an iteration`)
  assert.ok((five - three) / 2 <= 60, `${(five - three) / 2} events`)
})

/** Every execution of the workflow is short enough to be opened, and none ends before it has to. */
function assertPaged(t: TestContext, driver: WorkflowDriver, type: string): void {
  const pages = driver.runs.filter((run) => run.type === type)
  const events = pages.map((run) => run.events)
  t.diagnostic(`${type}: ${events.join(', ')} events`)
  assert.ok(pages.length > 1, 'it continued as new')
  assert.ok(Math.max(...events) < 2_000, `${Math.max(...events)} events`)
  // A page that ends too early would only make the open items end for nothing.
  assert.ok(Math.max(...events) > 1_500, `${Math.max(...events)} events`)
}

test('every execution of a grading run of 700 patches stays below 2,000 events', async (t) => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline(),
      openGrading: () => ({ run: 'mine', name: '700 predictions', patches: 700 }),
      gradePatch: ({ index }) => takes(60_000 + index * 97, { kind: 'resolved', reason: null }),
    },
  })
  await driver.start('gradePredictions', { predictions: 'gold', suite: 'demo:heldOut', run: 'mine' }).result()
  assert.equal(new Set(driver.callsOf('gradePatch').map(({ input }) => (input as { index: number }).index)).size, 700)
  assertPaged(t, driver, 'gradePredictions')
})

test('every execution of a gate of 250 tasks with two steps each stays below 2,000 events', async (t) => {
  const driver = await createWorkflowDriver({
    activities: {
      ...scriptedPipeline({ tasks: 250 }),
      gateTask: ({ index, step }) => takes(60_000 + index * 97, { done: step === 2, ok: true }),
    },
  })
  await driver.start('gateTasks', { plan: PLAN, suite: { suite: SHA, name: 'train', tasks: 250 } }).result()
  assert.equal(driver.callsOf('gateTask').length, 500)
  assertPaged(t, driver, 'gateTasks')
})
