import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { episodeKeys, gateKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { planIteration, planRefill } from './plan-iteration.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { selectEpisodes } from '../training/build-batch.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import type { IterationPlan } from '../../contracts/run-records.types.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const POOL = Array.from({ length: 9 }, (_, index) => `task-${index}`)

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

function recipe(refill: number | false): Recipe {
  const made = makeTrainingRecipe()
  const [stage] = made.reinforce?.stages ?? []
  assert.ok(stage !== undefined && made.reinforce !== null)
  made.reinforce.filter = { ...made.reinforce.filter, on: 'outcome', refill }
  made.reinforce.groupSize = 2
  made.reinforce.stages = [{ ...stage, problemsPerIteration: 4 }]
  made.rollout = { maxReplacements: 1, maxOpenEpisodes: 8 } as Recipe['rollout']
  return made
}

/** A run of its own with the plan of its first iteration. */
async function begin(run: string, refill: number | false = 3) {
  await putPart(store, gateKeys.gated(run, 'suite'), { suite: 'suite', repeats: 1, admitted: POOL, refused: [] })
  const place = { run, stage: 'dapo-1', iteration: 1, suite: 'suite' }
  const deps = { store, recipe: recipe(refill) }
  const planned = await planIteration(deps, place)
  const { taskIds } = await readOrThrow<IterationPlan>(store, planned.plan.key)
  const play = async (outcomes: Record<string, (0 | 1 | 'infra')[]>): Promise<void> => {
    for (const [taskId, list] of Object.entries(outcomes)) {
      for (const [index, outcome] of list.entries()) {
        const ended =
          outcome === 'infra'
            ? { disposition: 'infra' as const, verdict: null, failure: 'Sandbox.Lost' }
            : { verdict: outcome === 1 ? ('resolved' as const) : ('unresolved' as const) }
        const record = makeRecord({ run, stage: 'dapo-1', iteration: 1, taskId, index, ...ended })
        await putPart(store, episodeKeys.result(record.episode), record)
      }
    }
  }
  const refillRound = async (round: number): Promise<string[]> => {
    const { plan, tasks } = await planRefill(deps, { ...place, round })
    const found = (await readOrThrow<IterationPlan>(store, plan.key)).taskIds
    assert.equal(found.length, tasks)
    return found
  }
  return { deps, place, planned, taskIds, play, refillRound }
}

/** All equal: no gradient. */
const flat = [0, 0] as (0 | 1)[]
const spread = [0, 1] as (0 | 1)[]

function outcomesOf<T>(taskIds: readonly string[], outcomes: readonly T[]): Record<string, T> {
  return Object.fromEntries(taskIds.map((taskId, index) => [taskId, outcomes[index % outcomes.length] as T]))
}

test('the plan states the number of refill rounds, and omits it without refill', async () => {
  assert.equal((await begin('says', 3)).planned.refill, 3)
  assert.equal('refill' in (await begin('says-nothing', false)).planned, false)
})

test('each group without a spread draws one further unplayed problem until all groups have one', async () => {
  const { taskIds, play, refillRound, deps, place } = await begin('rounds')
  await play(outcomesOf(taskIds, [flat, spread, flat, spread]))
  const first = await refillRound(1)
  assert.equal(first.length, 2)
  assert.ok(first.every((taskId) => POOL.includes(taskId) && !taskIds.includes(taskId)))

  await play(outcomesOf(first, [spread, flat]))
  const second = await refillRound(2)
  assert.equal(second.length, 1)
  assert.ok(!taskIds.includes(second[0] ?? '') && !first.includes(second[0] ?? ''))

  await play(outcomesOf(second, [spread]))
  assert.deepEqual(await refillRound(3), [])
  // What the batch is made of: four groups with a spread, as many as the iteration has problems; the ledger has the others too.
  const records = await readEpisodeRecords(store, place)
  const { groups, fates } = selectEpisodes(deps.recipe, 'dapo-1', records)
  assert.equal(groups.filter(({ dropped }) => dropped === null).length, 4)
  assert.deepEqual([groups.length, fates.length, records.length], [7, 14, 14])
})

test('a repeated round draws the same problems, also after later rounds were played', async () => {
  const { taskIds, play, refillRound } = await begin('again')
  await play(outcomesOf(taskIds, [flat]))
  const first = await refillRound(1)
  assert.equal(first.length, 4)
  await play(outcomesOf(first, [spread]))
  assert.deepEqual(await refillRound(1), first)
  // An episode that a closed run left behind is played again under a new index, and now its group has a spread.
  await play({ [taskIds[0] ?? '']: [...flat, 1] })
  assert.deepEqual(await refillRound(1), first)
})

test('refill rounds shrink with the pool and end when it is empty', async () => {
  const { taskIds, play, refillRound } = await begin('small')
  await play(outcomesOf(taskIds, [flat]))
  const first = await refillRound(1)
  await play(outcomesOf(first, [flat]))
  const second = await refillRound(2)
  // 9 tasks: 4 of the plan, 4 of the first round, 1 of the second.
  assert.deepEqual([first.length, second.length], [4, 1])
  await play(outcomesOf(second, [flat]))
  assert.deepEqual(await refillRound(3), [])
})

test('a group that infrastructure made too small is not refilled', async () => {
  const { taskIds, play, refillRound } = await begin('few')
  await play(outcomesOf<(0 | 1 | 'infra')[]>(taskIds, [[0, 'infra', 'infra'], spread, flat, spread]))
  assert.equal((await refillRound(1)).length, 1)
})
