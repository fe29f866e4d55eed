/** One whole run of the recipe `mini-two-stage` on real parts: what the paper's run has beside the demo's, from its records. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { checkLedger } from '../../src/activities/training/check-ledger.ts'
import { readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import type { EpisodeRecord, EpisodeSpec } from '../../src/contracts/episodes.types.ts'
import { episodeKeys, runKeys } from '../../src/contracts/keys.ts'
import type { OverlapRecord } from '../../src/contracts/suites.types.ts'
import type { SuiteManifest } from '../../src/contracts/tasks.types.ts'
import type { TrainAgentResult } from '../../src/contracts/workflows.types.ts'
import { suiteKeys } from '../../src/contracts/keys.ts'
import type { JsonReport } from '../../src/report/json-report.ts'
import { STORY_MS } from '../support/hang.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { runRecipe } from '../support/run-recipe.ts'
import { batchesOf, episodesOf, leftBehind, recipeOf } from '../support/run-records.ts'
import type { IterationPlan } from '../../src/contracts/run-records.types.ts'

const STAGES = ['dapo-1', 'dapo-2']

let world: PipelineWorld
let result: TrainAgentResult
let episodes: EpisodeRecord[]

before(async () => {
  if (needsStack !== false) return
  world = await attachWorld()
  const { connection, store } = world
  const input = { recipe: 'mini-two-stage' }
  const ended = await runRecipe({ connection, input, limitMs: STORY_MS, say: console.error })
  assert.equal(ended.outcome.status, 'completed', JSON.stringify(ended.outcome))
  if (ended.outcome.status !== 'completed') return
  result = ended.outcome.result
  episodes = await episodesOf(store, result.run)
})

after(() => world?.close())

function played(stage: string): Map<string, EpisodeRecord[]> {
  return Map.groupBy(
    episodes.filter((episode) => episode.stage === stage),
    ({ taskId }) => taskId,
  )
}

const resolvedOf = (attempts: readonly EpisodeRecord[]): number =>
  attempts.filter(({ verdict }) => verdict === 'resolved').length

test('the run evaluates after every phase and promotes the policy of the second stage', {
  skip: needsStack,
}, () => {
  assert.deepEqual(
    result.stages.map(({ name, tasks, attempts }) => [name, tasks, attempts]),
    ['base', 'rft', 'dapo-1', 'rl'].map((name) => [name, 2, 1]),
  )
  assert.equal(result.policy, result.stages.at(-1)?.policy)
})

test('training and held-out suites are proven disjoint before any gate', { skip: needsStack }, async () => {
  const { store } = world
  const proof = await readOrThrow<OverlapRecord>(store, runKeys.overlap(result.run))
  assert.deepEqual([proof.tasks, proof.overlaps, proof.excluded], [8, [], []])
  const evaluated = await Promise.all(
    proof.evaluated.map((hash) => readOrThrow<SuiteManifest>(store, suiteKeys.manifest(hash))),
  )
  const train = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(proof.train))
  const heldOut = new Set(evaluated.flatMap(({ taskIds }) => taskIds))
  assert.equal(heldOut.size, 2)
  assert.equal(train.taskIds.filter((taskId) => heldOut.has(taskId)).length, 0)
})

test('every phase is played and scored under its own limits, and the report states them', {
  skip: needsStack,
}, async () => {
  const { store } = world
  const expected: Record<string, [number, number]> = {
    rft: [5, 600],
    'dapo-1': [5, 600],
    'dapo-2': [6, 640],
    'eval-base': [6, 640],
    'eval-rft': [5, 600],
    'eval-dapo-1': [5, 600],
    'eval-rl': [6, 640],
  }
  assert.deepEqual([...new Set(episodes.map(({ stage }) => stage))].toSorted(), Object.keys(expected).toSorted())
  for (const { episode, stage, turns } of episodes) {
    const { limits } = await readOrThrow<EpisodeSpec>(store, episodeKeys.spec(episode))
    assert.deepEqual([limits.maxTurns, limits.contextTokens], expected[stage], episode)
    assert.ok(turns <= limits.maxTurns, episode)
  }
  const bytes = await store.read(runKeys.report(result.run, 'report.json'))
  const report = JSON.parse(new TextDecoder().decode(bytes ?? new Uint8Array())) as JsonReport
  assert.deepEqual(
    report.stages.map(({ name, limits }) => [name, limits?.maxTurns, limits?.contextTokens]),
    [
      ['base', 6, 640],
      ['rft', 5, 600],
      ['dapo-1', 5, 600],
      ['rl', 6, 640],
    ],
  )
})

test('each group without a spread is refilled by one further problem that was not played before', {
  skip: needsStack,
}, async (t) => {
  const { store } = world
  for (const stage of STAGES) {
    const plan = await readOrThrow<IterationPlan>(store, runKeys.plan(result.run, stage, 1))
    const refill = await readOrThrow<IterationPlan>(store, runKeys.refill(result.run, stage, 1, 1))
    const groups = played(stage)
    assert.deepEqual([...groups.keys()].toSorted(), [...plan.taskIds, ...refill.taskIds].toSorted())
    const flat = plan.taskIds.filter((taskId) => {
      const attempts = groups.get(taskId) ?? []
      return resolvedOf(attempts) === 0 || resolvedOf(attempts) === attempts.length
    })
    t.diagnostic(
      `${stage}: ${plan.taskIds.length} problems, ${flat.length} without a spread, ${refill.taskIds.length} drawn`,
    )
    // The second stage's pool may have fewer left.
    assert.ok(refill.taskIds.length <= flat.length)
    if (stage === 'dapo-1') assert.equal(refill.taskIds.length, flat.length)
    assert.ok(refill.taskIds.every((taskId) => !plan.taskIds.includes(taskId)))
  }
})

test('the second stage excludes problems that the first solved in two thirds of attempts or never', {
  skip: needsStack,
}, async (t) => {
  const { store } = world
  const pool = await readOrThrow<{ kept: string[]; dropped: { taskId: string; reason: string }[] }>(
    store,
    runKeys.pool(result.run, 'dapo-2'),
  )
  const proof = await readOrThrow<OverlapRecord>(store, runKeys.overlap(result.run))
  const { taskIds } = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(proof.train))
  const first = played('dapo-1')
  const verdicts = taskIds.map((taskId): [string, string] => {
    const attempts = first.get(taskId) ?? []
    const resolved = resolvedOf(attempts)
    if (attempts.length === 0) return [taskId, 'kept']
    if (resolved === 0) return [taskId, 'never-solved']
    return [taskId, 3 * resolved >= 2 * attempts.length ? 'solved-often' : 'kept']
  })
  t.diagnostic(verdicts.map(([taskId, verdict]) => `${taskId} ${verdict}`).join(', '))
  const keptTasks = verdicts.flatMap(([taskId, verdict]) => (verdict === 'kept' ? [taskId] : []))
  assert.deepEqual(pool.kept.toSorted(), keptTasks.toSorted())
  assert.deepEqual(
    new Map(pool.dropped.map(({ taskId, reason }) => [taskId, reason])),
    new Map(verdicts.filter(([, verdict]) => verdict !== 'kept')),
  )
  assert.ok([...played('dapo-2').keys()].every((taskId) => pool.kept.includes(taskId)))
})

test('the ledger has every episode once, refilled groups too, and only groups with a spread train', {
  skip: needsStack,
}, async () => {
  const { store } = world
  const check = await checkLedger({ store, recipe: await recipeOf(store, result.run) }, result.run)
  assert.deepEqual(check.mismatches, [])
  assert.equal(check.totals.episodes, episodes.length)
  const batches = await batchesOf(store, result.run)
  const byId = new Map(episodes.map((record) => [record.episode, record]))
  for (const { key, trajectories } of batches.filter((batch) =>
    STAGES.some((stage) => batch.key.includes(`/${stage}/`)),
  )) {
    for (const taskId of new Set(trajectories.map(({ id }) => byId.get(id)?.taskId ?? ''))) {
      const stage = STAGES.find((name) => key.includes(`/${name}/`)) ?? ''
      const attempts = played(stage).get(taskId) ?? []
      const resolved = resolvedOf(attempts)
      assert.ok(resolved > 0 && resolved < attempts.length, `${key}: ${taskId}`)
    }
  }
  const planned = batches.reduce((sum, { minibatches }) => sum + minibatches.length, 0)
  assert.equal(Number(result.policy.slice(1, 7)), planned)
})

test('the run leaves nothing on the machine', { skip: needsStack }, async () => {
  assert.deepEqual(await leftBehind(world, result.run), [])
})
