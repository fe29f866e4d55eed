/**
 * The story: somebody sends a signal from the Temporal UI or its command line, with a payload that the handler does not expect. An
 * exception in the handler would fail the workflow task, and the server would repeat it for ever: a run of days would stand still until
 * somebody resets it.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HostInput, HostState } from '../../src/contracts/hosts.types.ts'
import type { EvaluateResult } from '../../src/contracts/workflows.types.ts'
import { takes } from '../support/activity-script.ts'
import { EPISODE, GROUP, PLAN, policyRef, ROLLOUT, scriptedPipeline, SHA } from '../support/scripted-pipeline.ts'
import { createWorkflowDriver } from '../support/workflow-driver.ts'

const RUN = { ...PLAN, evaluation: 'nightly' }

/** Of every signal of every workflow: nothing, nothing useful, and what comes near to it. */
const PAYLOADS: readonly unknown[][] = [
  [],
  [null],
  ['pause'],
  [7],
  [[]],
  [{}],
  [{ task: null, id: 1, replyTo: '' }],
  [{ task: 'task-0000', id: 1, replyTo: 'r'.repeat(1_001) }],
  [{ task: 't'.repeat(100_000), id: 1, replyTo: `eval/${PLAN.run}` }],
  [{ paused: 'yes', concurrency: 'eight', stopAfterIteration: 'now' }],
  [{ paused: false, stopAfterIteration: null, concurrency: 'eight' }],
  [{ paused: false, stopAfterIteration: 0.5 }],
  [{ groups: null }],
  [{ groups: [null] }],
  [{ groups: [{ taskId: 'task-0000' }] }],
  [{ failures: {}, errors: [] }],
  [{ stage: 'base', iteration: null, why: {} }],
  [{ do: 'pause', mode: 'later' }],
  [{ do: 'setLimits', concurrency: 'many' }],
  [{ do: 'stopAfterIteration', iteration: Number.NaN }],
  [{ graceMs: 'soon' }],
  [{ graceMs: 1e300 }],
  [{ queue: '', engine: null }],
]

const SIGNALS = [
  'control',
  'requeue',
  'requeued',
  'report',
  'alarm',
  'steer',
  'handed',
  'arrived',
  'nothing-of-ours',
] as const

const CASES = {
  trainAgent: { recipe: 'demo' },
  evaluate: { recipe: 'nightly' },
  gradePredictions: { predictions: 'gold', suite: 'nightly:heldOut' },
  gateSuite: { recipe: 'demo' },
  gateTasks: { plan: PLAN, suite: { suite: SHA, name: 'held-out', tasks: 2 } },
  rejectionFineTune: { plan: PLAN, policy: policyRef(0), suite: SHA },
  reinforce: { plan: PLAN, stageIndex: 0, policy: policyRef(0), suite: SHA },
  rollout: { ...ROLLOUT, tasks: 2 },
  promptGroup: GROUP,
  episode: EPISODE,
} as const

for (const [type, input] of Object.entries(CASES)) {
  test(`${type}: signals without a payload change nothing, and the workflow ends as without them`, async () => {
    const play = async (signals: readonly string[]) => {
      const plan = type === 'evaluate' ? RUN : PLAN
      const driver = await createWorkflowDriver({
        activities: {
          ...scriptedPipeline({ plan }),
          advanceEpisode: ({ step }) => takes(60_000, { turns: step * 8, disposition: step < 2 ? null : 'submitted' }),
          gateTask: () => takes(60_000, { done: true, ok: true }),
          gradePatch: () => takes(60_000, { kind: 'resolved', reason: null }),
        },
      })
      const root = driver.start(type, input)
      await driver.advance(30_000)
      for (const signal of signals) {
        for (const payload of PAYLOADS) {
          for (const { workflowId, status } of driver.runs) {
            if (status === 'open') driver.handle(workflowId).signal(signal, ...payload)
          }
          await driver.advance(1)
        }
      }
      return { result: await root.result(), played: driver.callsOf('gradeSubmission').length }
    }
    assert.deepEqual(await play(SIGNALS), await play([]))
  })
}

/** As the workflows below a root send them. */
const REPORT = {
  workflowId: 'w',
  stage: 's',
  iteration: 0,
  at: '2026-01-01T00:00:00.000Z',
  groups: 0,
  tasks: 2,
  episodes: 0,
  resolved: 0,
  endings: {},
  slowest: [],
  errors: [],
  failures: {},
}

// The story: a root that has ended is reset to its first task. The server delivers the signals of its whole first life before it.
for (const [type, input] of Object.entries(CASES)) {
  test(`${type}: signals that arrive before the first task change nothing, and the workflow ends as without them`, async () => {
    const play = async (isReset: boolean) => {
      const plan = type === 'evaluate' ? RUN : PLAN
      const driver = await createWorkflowDriver({ activities: scriptedPipeline({ plan }) })
      const root = driver.start(type, input)
      if (isReset) {
        root.signal('report', REPORT)
        root.signal('control', { paused: false, stopAfterIteration: null })
        root.signal('requeue', { task: 'task-9999', id: 1, replyTo: 'nobody' })
      }
      return root.result()
    }
    assert.deepEqual(await play(true), await play(false))
  })
}

const UPDATES = ['pause', 'setLimits', 'stopAfterIteration', 'requeue', 'resume', 'nothing-of-ours'] as const
const QUERIES = ['progress', 'failures', 'blockers', 'config'] as const

for (const type of ['trainAgent', 'evaluate', 'gradePredictions', 'gateSuite'] as const) {
  test(`${type}: updates and queries with any payload are answered or refused, and the workflow ends as without them`, async () => {
    const play = async (payloads: readonly unknown[][]) => {
      const plan = type === 'evaluate' ? RUN : PLAN
      const driver = await createWorkflowDriver({
        activities: {
          ...scriptedPipeline({ plan }),
          gateTask: () => takes(3_600_000, { done: true, ok: true }),
          gradePatch: () => takes(3_600_000, { kind: 'resolved', reason: null }),
        },
      })
      const root = driver.start(type, CASES[type])
      const update = (payload: readonly unknown[]) =>
        UPDATES.map((name) => root.update(name, ...payload).catch((error: unknown) => error))
      // Some of the payloads are no nonsense for a pause: nothing, or an object without a mode.
      const undo = () =>
        [root.update('resume'), root.update('setLimits', { concurrency: null })].map((asked) => asked.catch(() => null))
      // Before the first task of the workflow, and amid its work.
      const early = [...payloads.flatMap(update), ...(payloads.length === 0 ? [] : undo())]
      await driver.advance(30_000)
      await Promise.all(early)
      for (const payload of payloads) {
        for (const name of QUERIES) {
          await root.query(name, ...payload).catch((error: unknown) => {
            assert.match(String(error), /did not register a handler/, name)
          })
        }
        const asked = [...update(payload), ...undo()]
        await driver.advance(10_000)
        await Promise.all(asked)
      }
      return root.result()
    }
    assert.deepEqual(await play(PAYLOADS), await play([]))
  })
}

test('a host keeps its state after signals without a payload, and a drain without grace time lets episodes end', async () => {
  const input: HostInput = { host: 'node-7', holder: { queue: 'sandbox.node-7.boot', engine: 'one' }, drain: null }
  const driver = await createWorkflowDriver({ activities: { attendHost: () => takes(1e9, undefined) } })
  const host = driver.start('host', input, { workflowId: 'host/node-7' })
  await driver.advance(1_000)
  for (const payload of PAYLOADS.filter(([first]) => JSON.stringify(first ?? null) !== 'null')) {
    host.signal('arrived', ...payload)
    if (JSON.stringify(payload).includes('graceMs')) host.signal('drain', ...payload)
    await driver.advance(1)
  }
  const state = () => host.describe().memo['host'] as HostState
  assert.deepEqual(state(), { holder: input.holder, drain: null })

  host.signal('drain')
  await driver.advance(1)
  assert.deepEqual([state().drain?.moving, state().drain?.moveAt, state().drain?.graceMs], [false, null, null])
})

test('refuses a task name that is too long for an answer, and the run continues', async () => {
  const driver = await createWorkflowDriver({ activities: scriptedPipeline({ plan: RUN }) })
  const job = driver.start('evaluate', { recipe: 'nightly' })
  await driver.runUntil(() => driver.callsOf('openSandbox').length > 0)
  await assert.rejects(job.update('requeue', { task: 't'.repeat(100_000) }), /Expected \{"task"/)
  assert.equal((await job.result<EvaluateResult>()).run, PLAN.run)
})
