/** How operators steer a run: each update is checked, idempotent, and answers with the state that then holds. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type {
  EpisodeInput,
  EvaluateResult,
  RolloutInput,
  RolloutReport,
  RunConfig,
  RunFailures,
  RunProgress,
  SteeredRun,
} from '../../src/contracts/workflows.types.ts'
import { type ActivityTable, failureOf, neverEnds, takes } from '../support/activity-script.ts'
import { PLAN, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriverOptions } from '../support/workflow-driver.ts'

const RUN = { ...PLAN, evaluation: 'nightly' }

const GRADED = { episode: 'e', disposition: 'submitted', verdict: 'resolved', turns: 8, failure: null } as const

/** An evaluation of its own of six tasks, one attempt each, two at a time. */
async function evaluateSix(
  overrides: ActivityTable<AllActivities> = {},
  steps = 1,
  options: Pick<WorkflowDriverOptions<AllActivities>, 'startDelayMs'> = {},
) {
  const pipeline = scriptedPipeline({ plan: RUN, tasks: 6, groupSize: 1, maxReplacements: 1, maxOpenGroups: 2, steps })
  const driver = await createWorkflowDriver({ activities: { ...pipeline, ...overrides }, ...options })
  return { driver, job: driver.start('evaluate', { recipe: 'nightly' }, { workflowId: `eval/${PLAN.run}` }) }
}

async function trainOnSix(
  overrides: ActivityTable<AllActivities>,
  options: Pick<WorkflowDriverOptions<AllActivities>, 'startDelayMs'>,
) {
  const pipeline = scriptedPipeline({ tasks: 6, groupSize: 1, maxOpenGroups: 2, steps: 1 })
  const driver = await createWorkflowDriver({ activities: { ...pipeline, ...overrides }, ...options })
  return { driver, job: driver.start('trainAgent', { recipe: 'demo' }, { workflowId: `train/${PLAN.run}` }) }
}

function groupsOf(driver: Awaited<ReturnType<typeof evaluateSix>>['driver']): number {
  return driver.runs.filter(({ type }) => type === 'promptGroup').length
}

test('a paused evaluation starts nothing new until it is resumed, and repeated orders change nothing', async () => {
  const { driver, job } = await evaluateSix({
    advanceEpisode: () => takes(60_000, { turns: 8, disposition: 'submitted' }),
  })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length > 0)
  const paused = await job.update<SteeredRun>('pause')
  assert.deepEqual([paused.changed, paused.paused, paused.pause], [true, true, 'soft'])
  assert.equal((await job.update<SteeredRun>('pause')).changed, false)
  await driver.advance(86_400_000)
  assert.equal(groupsOf(driver), 2, 'open groups finished, no other started')
  assert.match(await job.currentDetails(), /waits for an operator.*longhaul run blockers/s)

  await assert.rejects(job.update('pause', { mode: 'later' }), /soft/)
  const resumed = await job.update<SteeredRun>('resume')
  assert.deepEqual([resumed.changed, resumed.paused], [true, false])
  assert.equal((await job.update<SteeredRun>('resume')).changed, false)
  await job.result<EvaluateResult>()
  assert.equal(groupsOf(driver), 6)
})

test('a higher limit starts more open tasks at once, and the recipe’s number can be restored', async () => {
  const { driver, job } = await evaluateSix({ advanceEpisode: () => neverEnds() })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 2)
  for (const concurrency of [0, 1.5, '4', undefined]) {
    await assert.rejects(job.update('setLimits', { concurrency }), /Expected \{"concurrency": integer/)
  }
  const limited = await job.update<SteeredRun>('setLimits', { concurrency: 5 })
  assert.deepEqual([limited.changed, limited.limits], [true, { concurrency: 5 }])
  assert.equal((await job.update<SteeredRun>('setLimits', { concurrency: 5 })).changed, false)
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 5)
  assert.deepEqual((await job.query<RunConfig>('config')).limits, { concurrency: 5 })
  const back = await job.update<SteeredRun>('setLimits', { concurrency: null })
  assert.deepEqual([back.changed, back.limits], [true, { concurrency: null }])
})

test('a hard pause holds an episode before its next step, which gives up its sandbox after five minutes', async () => {
  const { driver, job } = await evaluateSix(
    { advanceEpisode: ({ step }) => takes(60_000, { turns: step * 8, disposition: step < 3 ? null : 'submitted' }) },
    3,
  )
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 2)
  const held = await job.update<SteeredRun>('pause', 'hard')
  assert.equal(held.pause, 'hard')
  await driver.advance(120_000)
  assert.equal(driver.callsOf('advanceEpisode').length, 2, 'open steps must end and no other may start')
  assert.equal(driver.callsOf('closeSandbox').length, 0)
  await driver.advance(600_000)
  assert.equal(driver.callsOf('closeSandbox').length, 2)
  assert.equal(driver.callsOf('advanceEpisode').length, 2)

  await job.update('resume')
  await job.result<EvaluateResult>()
  assert.equal(driver.callsOf('recordUngraded').length, 0, 'no episode was lost')
  assert.equal(driver.callsOf('gradeSubmission').length, 6)
})

// The story: thousands of episodes begin at once, and the server starts them one after another. A hard pause comes while some have no
// execution yet that a signal could reach.
for (const [what, isLate] of [
  ['group', (id: string) => id.endsWith('/task/task-0001')],
  ['episode', (id: string) => id.endsWith('/task/task-0001/ep/00')],
] as const) {
  test(`a hard pause reaches the ${what} that the server starts only afterwards`, async () => {
    const { driver, job } = await evaluateSix(
      { advanceEpisode: ({ step }) => takes(60_000, { turns: step * 8, disposition: step < 3 ? null : 'submitted' }) },
      3,
      { startDelayMs: (id) => (isLate(id) ? 20_000 : 0) },
    )
    await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 1)
    await job.update<SteeredRun>('pause', 'hard')
    await driver.advance(3_600_000)
    assert.ok(
      driver.runs.some(({ workflowId }) => isLate(workflowId)),
      'it has started',
    )
    assert.ok(driver.callsOf('advanceEpisode').length <= 2, 'at most the steps under way')
    assert.deepEqual(ordersOf(driver, isLate), [0], 'the order comes with the start')
    await job.update('resume')
    await job.result<EvaluateResult>()
    assert.equal(driver.callsOf('gradeSubmission').length, 6)
  })
}

/** Seconds between the start of a workflow and each order that it received. */
function ordersOf(driver: Awaited<ReturnType<typeof evaluateSix>>['driver'], isIt: (id: string) => boolean): number[] {
  const events = driver.runs.find(({ workflowId }) => isIt(workflowId))?.history.events ?? []
  const secondOf = (index: number): number => Number(events[index]?.eventTime?.seconds ?? 0)
  return events.flatMap((event, index) =>
    event.workflowExecutionSignaledEventAttributes?.signalName === 'control' ? [secondOf(index) - secondOf(0)] : [],
  )
}

// The story: an operator pauses a run in the second in which it has requested the start of its rollout. The input of the rollout names no
// pause, and the server has no execution yet that an order reaches.
for (const [what, isLate] of [
  ['the rollout of an evaluation', (id: string) => id.startsWith(`eval/${PLAN.run}/`) && id.endsWith('/0000')],
  ['a stage', (id: string) => id.endsWith('/dapo-1')],
  ['the rollout of a stage', (id: string) => id.endsWith('/dapo-1/0001')],
  ['the rollout of rejection fine-tuning', (id: string) => id.endsWith('/rft/0000')],
] as const) {
  test(`a pause reaches ${what} that the server starts only afterwards`, async () => {
    let asked: string | null = null
    const options = {
      startDelayMs: (id: string) => {
        if (!isLate(id)) return 0
        asked = id
        return 20_000
      },
    }
    const slowly = { advanceEpisode: () => takes(60_000, { turns: 8, disposition: 'submitted' } as const) }
    const { driver, job } = what.includes('evaluation')
      ? await evaluateSix(slowly, 1, options)
      : await trainOnSix(slowly, options)
    await driver.runUntil(() => asked !== null)
    const before = groupsOf(driver)
    await job.update<SteeredRun>('pause')
    await driver.advance(3_600_000)
    assert.ok(
      driver.runs.some(({ workflowId }) => workflowId === asked),
      'it has started',
    )
    assert.deepEqual(
      ordersOf(driver, (id) => id === asked),
      [0],
      'the order comes with the start',
    )
    // The first groups may have begun before it arrives.
    assert.ok(groupsOf(driver) <= before + 2, `${groupsOf(driver) - before} groups began during the pause`)
    await job.update('resume')
    await job.result()
    assert.ok(groupsOf(driver) >= before + 6)
  })
}

// The story: a server under load takes ten minutes to start a stage, longer than an order is repeated without knowing of its start.
test('a pause is not given up while the server still has to start a stage', async () => {
  const isLate = (id: string): boolean => id.endsWith('/dapo-1')
  let isAsked = false
  const startDelayMs = (id: string): number => {
    if (!isLate(id)) return 0
    isAsked = true
    return 600_000
  }
  const { driver, job } = await trainOnSix({}, { startDelayMs })
  await driver.runUntil(() => isAsked)
  const before = groupsOf(driver)
  await job.update<SteeredRun>('pause')
  await driver.advance(3_600_000)
  assert.deepEqual(ordersOf(driver, isLate), [0])
  assert.ok(groupsOf(driver) <= before + 2)
  await job.update('resume')
  await job.result()
})

// The story: an operator pauses a run hard to restart an engine. A placement would fail, or hold a sandbox for nothing.
test('an episode that loses its sandbox during a hard pause gets another after the pause', async () => {
  let isPaused = false
  const { driver, job } = await evaluateSix({
    advanceEpisode: () =>
      takes(60_000, () => {
        if (isPaused) throw failureOf('Sandbox.Lost')
        return { turns: 8, disposition: 'submitted' }
      }),
  })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 2)
  await job.update<SteeredRun>('pause', 'hard')
  isPaused = true
  await driver.advance(3_600_000)
  assert.equal(driver.callsOf('closeSandbox').length, 2)
  assert.equal(driver.callsOf('openSandbox').length, 2)

  isPaused = false
  await job.update('resume')
  await job.result<EvaluateResult>()
  assert.equal(driver.callsOf('openSandbox').length, 8)
  assert.equal(driver.callsOf('recordUngraded').length, 0, 'no episode was lost')
})

test('a requeued task is cancelled and played again; an ended or unknown one is left alone', async () => {
  let hangs = true
  const { driver, job } = await evaluateSix({
    advanceEpisode: ({ taskId }) => {
      if (taskId === 'task-0001' && hangs) return neverEnds()
      return { turns: 8, disposition: 'submitted' }
    },
  })
  await driver.runUntil(() => driver.callsOf('gradeSubmission').length === 5)
  hangs = false
  assert.equal((await job.update<SteeredRun>('requeue', { task: 'task-0003' })).changed, false)
  await assert.rejects(job.update('requeue', { task: 'nobody' }), /No task nobody/)
  await assert.rejects(job.update('requeue', {}), /Expected \{"task"/)
  const requeued = await job.update<SteeredRun>('requeue', { task: 'task-0001' })
  assert.deepEqual([requeued.changed, requeued.note?.includes('played again')], [true, true])
  await job.result<EvaluateResult>()
  assert.equal(driver.callsOf('gradeSubmission').length, 6)
  assert.equal(groupsOf(driver), 7)
})

test('the root receives counts, interval, losses by code and the slowest tasks of its rollout', async () => {
  const { driver, job } = await evaluateSix({
    advanceEpisode: ({ taskId }) =>
      taskId === 'task-0005' ? neverEnds() : takes(20_000, { turns: 8, disposition: 'submitted' }),
    gradeSubmission: (input) => ({
      episode: `${input.taskId}/${input.index}`,
      disposition: input.disposition,
      verdict: input.taskId === 'task-0002' ? 'could-not-grade' : 'resolved',
      turns: 8,
      failure: input.taskId === 'task-0002' ? 'Sandbox.EngineUnavailable' : null,
    }),
  })
  await driver.runUntil(() => driver.callsOf('gradeSubmission').length === 6)
  await driver.advance(60_000)
  const { rollout } = await job.query<RunProgress>('progress')
  assert.ok(rollout !== null)
  assert.deepEqual([rollout.tasks, rollout.groups >= 3], [6, true])
  const live = await driver.handle(rollout.workflowId).query<RolloutReport>('progress')
  assert.deepEqual([live.groups, live.resolved, live.score?.tasks], [5, 4, 4])
  assert.deepEqual(
    live.slowest.map(({ task }) => task),
    ['task-0005'],
  )
  assert.deepEqual(live.failures, { 'Sandbox.EngineUnavailable': 2 })
  const failures = await job.query<RunFailures>('failures')
  assert.deepEqual(
    failures.last.map(({ task }) => task),
    ['task-0002'],
  )
  const details = await job.currentDetails()
  assert.match(details, /pass@1 so far \(95 %\)/)
  assert.match(details, /task-0002 \| Sandbox\.EngineUnavailable/)
  assert.match(details, /\[its workflow\]\(\/namespaces\/.*\/workflows\/eval%2F/)
})

test('a signal recorded instead of an unanswered update does the same, and an invalid one changes nothing', async () => {
  const { driver, job } = await evaluateSix({
    advanceEpisode: () => takes(60_000, { turns: 8, disposition: 'submitted' }),
  })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length > 0)
  job.signal('steer', { do: 'pause', mode: 'soft' })
  job.signal('steer', { do: 'setLimits', concurrency: -1 })
  job.signal('steer', { do: 'dance' })
  await driver.advance(86_400_000)
  assert.equal(groupsOf(driver), 2)
  job.signal('steer', { do: 'resume' })
  await job.result<EvaluateResult>()
})

// The story: a run is paused, and a person resets its root. A reset leaves children alone, so the rollout of before keeps its id and
// its pause. The new execution is resumed before it reaches that rollout, and would wait an hour for it and fail.
test('a run continues with a paused rollout of an earlier execution under its id', async () => {
  const { driver, job } = await evaluateSix()
  await driver.runUntil(() => driver.runs.some(({ type }) => type === 'rollout'), 'its rollout')
  const rollout = driver.runs.find(({ type }) => type === 'rollout')
  assert.ok(rollout)
  job.terminate()
  await driver.runToIdle()

  const input = { ...(rollout.input as RolloutInput), paused: true }
  const earlier = driver.start('rollout', input, { workflowId: rollout.workflowId })
  await driver.advance(1_000)
  const again = driver.start('evaluate', { recipe: 'nightly' }, { workflowId: `eval/${PLAN.run}` })
  await again.result<EvaluateResult>()
  assert.equal(earlier.isOpen, false)
})

// The story: a person resets the root of a run whose rollout takes days. The rollout of before plays on under its id.
test('a run waits a day for a rollout of an earlier execution with few events, and nothing is played twice', async () => {
  const { driver, job } = await evaluateSix({
    advanceEpisode: () => takes(5 * 3_600_000, { turns: 8, disposition: 'submitted' }),
    openSandbox: (input) =>
      driver.callsOf('gradeSubmission').some((call) => (call.input as EpisodeInput).taskId === input.taskId)
        ? { kind: 'result', result: { ...GRADED, recalled: true } }
        : sandboxHandle(input),
  })
  await driver.runUntil(() => driver.runs.some(({ type }) => type === 'rollout'), 'its rollout')
  const rollout = driver.runs.find(({ type }) => type === 'rollout')
  assert.ok(rollout)
  job.terminate()
  await driver.runToIdle()

  const played = driver.callsOf('gradeSubmission').length
  driver.start('rollout', rollout.input, { workflowId: rollout.workflowId })
  await driver.advance(1_000)
  const again = driver.start('evaluate', { recipe: 'nightly' }, { workflowId: `eval/${PLAN.run}` })
  await again.result<EvaluateResult>()
  assert.equal(driver.callsOf('gradeSubmission').length, played + 6)
  assert.ok(again.describe().events < 700, `${again.describe().events} events`)
})

// The story: the root of a run was terminated, and the run is started again at once. It waits for its rollout to close, and an operator
// pauses the run meanwhile.
test('a run that was paused while it waited for an earlier rollout starts its own one paused', async () => {
  const { driver, job } = await evaluateSix({
    advanceEpisode: () => neverEnds(),
    closeSandbox: () => takes(90_000, undefined),
  })
  await driver.runUntil(() => driver.callsOf('advanceEpisode').length === 2)
  job.terminate()
  const again = driver.start('evaluate', { recipe: 'nightly' }, { workflowId: `eval/${PLAN.run}` })
  await driver.advance(20_000)
  assert.equal((await again.update<SteeredRun>('pause')).paused, true)
  await again.update('setLimits', { concurrency: 5 })
  await driver.advance(3_600_000)
  const rollouts = driver.runs.filter(({ type }) => type === 'rollout').map(({ input }) => input as RolloutInput)
  assert.deepEqual(
    rollouts.map(({ paused, concurrency }) => [paused, concurrency]),
    [
      [false, null],
      [true, 5],
    ],
  )
  assert.equal(groupsOf(driver), 2)
})

for (const [stage, plan] of [
  ['rft', PLAN],
  ['dapo-1', { ...PLAN, rft: false }],
] as const) {
  test(`a training run that was paused while it waited for an earlier ${stage} starts that stage paused`, async () => {
    const driver = await createWorkflowDriver({
      activities: {
        ...scriptedPipeline({ plan, steps: 1 }),
        advanceEpisode: (input) => (input.stage === stage ? neverEnds() : { turns: 8, disposition: 'submitted' }),
        closeSandbox: (_, { workflowId }) => takes(workflowId.includes(`/${stage}/`) ? 90_000 : 1, undefined),
      },
    })
    const start = () => driver.start('trainAgent', { recipe: 'demo' }, { workflowId: `train/${PLAN.run}` })
    const first = start()
    const isOfStage = ({ workflowId }: { workflowId: string }): boolean =>
      workflowId === `train/${PLAN.run}/${stage}/000${stage === 'rft' ? 0 : 1}`
    await driver.runUntil(() => driver.runs.some(isOfStage), 'its rollout')
    await driver.advance(1_000)
    first.terminate()
    const again = start()
    const held = (): boolean => again.describe().logs.some(({ message }) => message.includes('still closing'))
    await driver.runUntil(held, 'the wait for the stage')
    await again.update('pause')
    const before = driver.runs.length
    await driver.advance(3_600_000)
    const groups = driver.runs.slice(before).filter(({ type }) => type === 'promptGroup')
    assert.deepEqual(
      groups.map(({ workflowId }) => workflowId),
      [],
    )
  })
}
