/**
 * A run whose two engines Longhaul starts itself. One is killed amid an evaluation and the trainer worker amid an iteration; two policies
 * are published, and no person is waited for.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { checkLedger } from '../../src/activities/training/check-ledger.ts'
import { fleetsRoot, openFleets } from '../../src/adapters/engines/fleets.ts'
import type { EpisodeRecord } from '../../src/contracts/episodes.types.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import type { EnginesRecord } from '../../src/contracts/policy.types.ts'
import type { TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import { listProcesses } from '../../src/platform/processes.ts'
import { namespaceIdOf } from '../../src/workers/workflow-owners.ts'
import { HANG_MS } from '../support/hang.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { runNameOf, runRecipe, waitForPhase } from '../support/run-recipe.ts'
import { batchesOf, episodesOf, leftBehind, recipeOf } from '../support/run-records.ts'

const OVERRIDES = {
  data: { train: { count: 4 }, heldOut: { count: 1 } },
  rft: null,
  reinforce: {
    groupSize: 2,
    stages: [
      {
        name: 'dapo-1',
        context: 640,
        maxTurns: 4,
        penaltyStart: 3,
        problemsPerIteration: 2,
        batch: 2,
        clip: { low: 0.2, high: 0.28 },
        until: { maxIterations: 1 },
      },
    ],
  },
  evaluate: { tasks: 1, maxTurns: 4 },
  policyServer: { launch: { replicas: 2 } },
}

let world: PipelineWorld
let result: TrainAgentResult
let episodes: EpisodeRecord[]
let engines: EnginesRecord | null = null
let directory = ''
/** Processes that each engine had, in order. */
const seen = new Map<string, Set<number>>()
const kills: string[] = []

before(async () => {
  if (needsStack !== false) return
  world = await attachWorld()
  const { connection, store, stack } = world
  const namespaceId = await namespaceIdOf(connection.client.connection, connection.namespace)
  assert.ok(namespaceId)
  directory = fleetsRoot(stack.environment['LONGHAUL_ENGINES'] ?? '', namespaceId)
  const fleets = openFleets(directory)
  const over = new AbortController()
  let killing: Promise<void> = Promise.resolve()
  const kill = async (workflowId: string): Promise<void> => {
    const run = await runNameOf({ connection, workflowId })
    const watching = (async () => {
      while (!over.signal.aborted) {
        for (const { name, phase, process: one } of (await fleets.look(run))?.engines ?? []) {
          if (phase === 'serving' && one !== null) seen.set(name, (seen.get(name) ?? new Set()).add(one.pid))
        }
        await sleep(100)
      }
    })()
    await waitForPhase({ connection, workflowId, phase: /evaluating base/, limitMs: HANG_MS })
    const [first] = (await fleets.look(run))?.engines ?? []
    assert.ok(first?.process)
    process.kill(-first.process.pid, 'SIGKILL')
    kills.push('engine')
    await waitForPhase({ connection, workflowId, phase: /reinforcing|evaluating rl/, limitMs: HANG_MS })
    await stack.kill('worker-trainer')
    kills.push('worker')
    await watching
  }
  try {
    const ended = await runRecipe({
      connection,
      input: { recipe: 'mini', overrides: OVERRIDES },
      limitMs: 2 * HANG_MS,
      say: console.error,
      onStart: ({ workflowId }) => {
        killing = kill(workflowId)
        killing.catch(() => undefined)
      },
    })
    over.abort()
    await killing
    assert.equal(ended.outcome.status, 'completed', JSON.stringify(ended.outcome))
    if (ended.outcome.status !== 'completed') return
    result = ended.outcome.result
  } finally {
    over.abort()
  }
  episodes = await episodesOf(store, result.run)
  engines = await store.readRecord<EnginesRecord>(runKeys.engines(result.run))
})

after(() => world?.close())

test('a run ends with its evaluations although an engine and the worker were killed', { skip: needsStack }, (t) => {
  t.diagnostic(JSON.stringify([...seen].map(([name, pids]) => [name, [...pids]])))
  assert.deepEqual(kills, ['engine', 'worker'])
  assert.deepEqual(
    result.stages.map(({ name, tasks, attempts }) => [name, tasks, attempts]),
    ['base', 'rl'].map((name) => [name, 1, 1]),
  )
})

test('the killed engine is started again, and the other one outlives the worker', { skip: needsStack }, () => {
  assert.equal(seen.get('engine-0')?.size, 2)
  assert.equal(seen.get('engine-1')?.size, 1)
  assert.equal(new Set(engines?.urls).size, 2)
})

test('the policy of the iteration is published and sampled from', { skip: needsStack }, async () => {
  // Seeds decide what is sampled: its groups have a spread.
  assert.equal((await batchesOf(world.store, result.run)).length, 1)
  const sampled = new Set(episodes.map(({ policy }) => policy))
  assert.deepEqual([sampled.size, sampled.has(result.policy)], [2, true])
})

test('the ledger counts every episode once, and no kill lost an episode', { skip: needsStack }, async () => {
  const { store } = world
  const check = await checkLedger({ store, recipe: await recipeOf(store, result.run) }, result.run)
  assert.deepEqual(check.mismatches, [])
  assert.equal(check.totals.episodes, episodes.length)
  // Two evaluations of one task, two tasks twice for the iteration.
  assert.equal(episodes.length, 2 * 1 + 2 * 2)
  assert.deepEqual(
    episodes.filter(({ disposition }) => disposition === 'infra').map(({ episode }) => episode),
    [],
  )
})

test('the end of the run stops engines and keeper', { skip: needsStack }, async () => {
  const left = listProcesses().filter(({ command }) => command.includes(`${directory}/${result.run}`))
  assert.deepEqual(
    left.map(({ command }) => command),
    [],
  )
  assert.deepEqual(await leftBehind(world, result.run), [])
})
