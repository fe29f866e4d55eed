/**
 * Every step of an episode meets every fault of an activity, for many seeds: who is struck, at which call and how often. The fake
 * clock makes a cell cheap; `npm run chaos` plays the same matrix with real processes.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { CancelledFailure } from '@temporalio/common'
import { randomFrom, type Random } from '../../src/adapters/datasets/synthetic/compose.ts'
import type { EpisodeInput, PromptGroupInput, PromptGroupResult } from '../../src/contracts/workflows.types.ts'
import {
  type ActivityCall,
  type ActivityTable,
  failureOf,
  neverEnds,
  takes,
  timesOut,
} from '../support/activity-script.ts'
import { GROUP, sandboxHandle, scriptedPipeline } from '../support/scripted-pipeline.ts'
import { type AllActivities, createWorkflowDriver, type WorkflowDriver } from '../support/workflow-driver.ts'

const SEEDS = 10

const STEPS = ['openSandbox', 'advanceEpisode', 'captureSubmission', 'gradeSubmission', 'closeSandbox'] as const
type Step = (typeof STEPS)[number]

/** What happens to the calls that are struck. `times` = how many attempts of one call in a row. */
interface FaultKind {
  name: string
  times: number
  strike(driver: WorkflowDriver, call: ActivityCall): unknown
  /** The group ends as cancelled. */
  cancels?: boolean
  /** The struck call's worker comes back a minute later. */
  returns?: boolean
  /** @default all */
  steps?: readonly Step[]
}

const fails = (code: Parameters<typeof failureOf>[0]) => (): never => {
  throw failureOf(code)
}

const KINDS: readonly FaultKind[] = [
  { name: 'the worker is killed once', times: 1, strike: () => timesOut('HEARTBEAT') },
  { name: 'the worker is killed at each attempt', times: 99, strike: () => timesOut('HEARTBEAT') },
  {
    name: 'no worker takes it',
    times: 99,
    // Shared queues may hold a backlog: only a host's own has such a limit.
    steps: ['advanceEpisode', 'captureSubmission', 'closeSandbox'],
    strike: () => timesOut('SCHEDULE_TO_START'),
  },
  { name: 'it never ends', times: 99, strike: () => timesOut('START_TO_CLOSE') },
  { name: 'a failure that passes', times: 2, strike: fails('Artifact.Unavailable') },
  { name: 'a failure that stays', times: 99, strike: fails('Artifact.Unavailable') },
  { name: 'the sandbox is lost', times: 1, strike: fails('Sandbox.Lost') },
  { name: 'the replay diverges', times: 1, strike: fails('Sandbox.Diverged') },
  { name: 'a record is torn', times: 1, strike: fails('Artifact.Corrupt') },
  {
    name: 'the worker is away for a minute',
    times: 1,
    returns: true,
    strike(driver, { taskQueue }) {
      driver.stopQueue(taskQueue)
      return neverEnds()
    },
  },
  {
    name: 'cancelled, twice',
    times: 1,
    cancels: true,
    strike: () => takes(5_000, undefined),
  },
]

interface Cell {
  step: Step
  kind: FaultKind
  random: Random
}

/** One group of three in which one call of one or two episodes is struck. */
async function playCell({ step, kind, random }: Cell) {
  const base = scriptedPipeline({ steps: 3 })
  const victims = new Set(random.sample([0, 1, 2], 1 + random.below(2)))
  const unluckyStep = 1 + random.below(3)
  const input: PromptGroupInput = { ...GROUP, groupSize: 3, maxReplacements: 3 }
  const ends = new Map<number, string[]>()
  const opened: string[] = []
  const struck: ActivityCall[] = []
  const state: { driver?: WorkflowDriver } = {}

  const isStruck = (
    given: Partial<EpisodeInput> & { step?: number; placement?: number; name?: string },
    call: ActivityCall,
  ) => {
    const index = given.index ?? Number(/-(\d+)-p1$/.exec(given.name ?? '')?.[1] ?? -1)
    const isUnlucky = step !== 'advanceEpisode' || given.step === unluckyStep
    // A second placement is spared, but for what strikes for ever.
    const isFirst = (given.placement ?? 1) === 1
    // A queue that comes back stays.
    const isDue = kind.returns !== true || struck.length === 0
    return victims.has(index) && isUnlucky && isFirst && isDue && call.attempt <= kind.times
  }
  const end = (index: number, how: string): void => void ends.set(index, [...(ends.get(index) ?? []), how])
  const answers: ActivityTable<AllActivities> = {
    ...base,
    openSandbox: (given) => {
      const handle = { ...sandboxHandle(given), hostQueue: `sandbox.host-${given.placement}.boot` }
      return takes(500, () => {
        opened.push(handle.name)
        return handle
      })
    },
    gradeSubmission: (given, call) =>
      takes(500, () => {
        end(given.index, 'graded')
        return base.gradeSubmission?.(given, call) as never
      }),
    recordUngraded: (given, call) => {
      end(given.index, given.disposition)
      return base.recordUngraded?.(given, call) as never
    },
  }
  const answer = answers[step] as (given: object, call: ActivityCall) => unknown
  const activities = {
    ...answers,
    [step]: (given: object, call: ActivityCall) => {
      if (!isStruck(given, call)) return answer(given, call)
      struck.push(call)
      return kind.strike(state.driver as WorkflowDriver, call)
    },
  } as ActivityTable<AllActivities>
  const driver = await createWorkflowDriver({ activities })
  const group = driver.start('promptGroup', input, { workflowId: 'group' })
  state.driver = driver
  if (kind.returns === true) {
    await driver.runUntil(() => struck.length > 0)
    await driver.advance(60_000)
    for (const { taskQueue } of struck) await driver.startQueue(taskQueue)
  }
  if (kind.cancels === true) {
    await driver.runUntil(() => struck.length > 0)
    group.cancel()
    await driver.advance(700)
    if (group.describe().status === 'open') group.cancel()
  }
  const result = await group.result<PromptGroupResult>().catch((error: unknown) => {
    if (kind.cancels === true && error instanceof CancelledFailure) return null
    throw error
  })
  await driver.runToIdle()
  return { driver, result, ends, opened, input, isHit: struck.length > 0 }
}

for (const step of STEPS) {
  for (const kind of KINDS) {
    if (kind.steps?.includes(step) === false) continue
    test(`${step}: ${kind.name}: one outcome per episode, every sandbox closed, no infra failure with a verdict`, async () => {
      let hits = 0
      for (let seed = 1; seed <= SEEDS; seed++) {
        const at = `seed ${seed}`
        const { driver, result, ends, opened, input, isHit } = await playCell({
          step,
          kind,
          random: randomFrom(`matrix/${step}/${kind.name}/${seed}`),
        })
        hits += isHit ? 1 : 0
        assert.ok(
          driver.runs.every(({ status }) => status !== 'open'),
          `${at}: something is still open`,
        )
        const closed = new Set(
          driver.callsOf('closeSandbox').map(({ input: given }) => (given as { name: string }).name),
        )
        assert.deepEqual(
          opened.filter((name) => !closed.has(name)),
          [],
          `${at}: not closed`,
        )
        const episodes = driver.runs
          .filter(({ type }) => type === 'episode')
          .map(({ input: given }) => (given as EpisodeInput).index)
        for (const index of episodes)
          assert.equal(ends.get(index)?.length, 1, `${at}: episode ${index} ended ${ends.get(index)?.join(' and ')}`)
        assert.deepEqual(
          placements(driver).filter((count) => count > 3),
          [],
          `${at}: too many placements`,
        )
        if (kind.cancels === true) continue
        assert.ok(result)
        const graded = [...ends.values()].flat().filter((how) => how === 'graded').length
        assert.equal(result.valid, graded, `${at}: what was lost counts in nothing`)
        assert.equal(result.valid, input.groupSize, `${at}: lost episodes are replaced`)
      }
      assert.ok(hits > SEEDS / 2, `only ${hits} of ${SEEDS} seeds were struck`)
    })
  }
}

/** How often each episode was placed, by its calls. */
function placements(driver: WorkflowDriver): number[] {
  const opens = driver.callsOf('openSandbox').map(({ input }) => input as EpisodeInput & { placement: number })
  const byEpisode = Map.groupBy(opens, ({ index }) => index)
  return [...byEpisode.values()].map((calls) => Math.max(...calls.map(({ placement }) => placement)))
}
