import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { episodeKeys, gateKeys, runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { planIteration } from './plan-iteration.ts'
import type { IterationPlan } from '../../contracts/run-records.types.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
  const admitted = ['easy', 'half', 'never', 'unseen']
  await putPart(store, gateKeys.gated('r', 'suite'), { suite: 'suite', repeats: 1, admitted, refused: [] })
  // Two iterations of the first stage, and an evaluation whose attempts must not count.
  await play('dapo-1', 1, { easy: [1, 1], half: [1, 0], never: [0, 0] })
  await play('dapo-1', 2, { easy: [1, 0], half: [0, 0], never: [0, 0] })
  await play('eval-rft', 0, { never: [1, 1] })
})

after(() => close())

async function play(stage: string, iteration: number, outcomes: Record<string, number[]>): Promise<void> {
  for (const [taskId, verdicts] of Object.entries(outcomes)) {
    for (const [index, outcome] of verdicts.entries()) {
      const verdict = outcome === 1 ? ('resolved' as const) : ('unresolved' as const)
      const record = makeRecord({ stage, iteration, taskId, index, verdict })
      await putPart(store, episodeKeys.result(record.episode), record)
    }
  }
}

function twoStages(unseen: 'keep' | 'drop', dropSuccessAtLeast = 0.6667): Recipe {
  const recipe = makeTrainingRecipe()
  recipe.data = { gate: { repeats: 1, refused: 'fail' } } as Recipe['data']
  recipe.rollout = { maxReplacements: 1, maxOpenEpisodes: 8 } as Recipe['rollout']
  const [first] = recipe.reinforce?.stages ?? []
  assert.ok(first !== undefined && recipe.reinforce !== null)
  const select = { dropSuccessAtLeast, dropNeverSolved: true, over: 'dapo-1', unseen }
  const second = { ...first, name: `dapo-2-${unseen}-${dropSuccessAtLeast}`, pool: 'reselected' as const, select }
  recipe.reinforce.stages = [first, { ...second, problemsPerIteration: 10 }]
  return recipe
}

async function plan(recipe: Recipe, stage: string, iteration: number): Promise<string[]> {
  const input = { run: 'r', stage, iteration, suite: 'suite' }
  await planIteration({ store, recipe }, input)
  return (await readOrThrow<IterationPlan>(store, runKeys.plan('r', stage, iteration))).taskIds.toSorted()
}

test('a reselected stage draws tasks that the earlier stage solved neither often nor never; other stages draw all', async () => {
  const recipe = twoStages('keep')
  assert.equal((await plan(recipe, 'dapo-1', 3)).length, 2)
  // easy: 3 of 4; half: 1 of 4; never: 0 of 4.
  assert.deepEqual(await plan(recipe, 'dapo-2-keep-0.6667', 1), ['half', 'unseen'])
  assert.deepEqual(await plan(twoStages('drop'), 'dapo-2-drop-0.6667', 1), ['half'])
})

test('the pool is decided once, and a later attempt changes no iteration', async () => {
  const recipe = twoStages('keep')
  await play('dapo-1', 3, { half: [1, 1, 1, 1, 1, 1, 1, 1] })
  assert.deepEqual(await plan(recipe, 'dapo-2-keep-0.6667', 2), ['half', 'unseen'])
})

test('a selection that keeps no task stops the run with the reason', async () => {
  await assert.rejects(
    plan(twoStages('drop', 0.05), 'dapo-2-drop-0.05', 1),
    (error) => isLonghaulError(error) && error.code === 'Batch.Empty' && /keep some of 4 tasks/.test(error.message),
  )
})

// The story: the run is started again on an older copy of the store, or a bucket lists an older state, when the second stage begins. Its
// pool is stored for good, so the whole stage would draw from other tasks than in the undisturbed run.
test('a pool is not decided while a record of an ended iteration is missing, and one that no ledger ended does not count', async () => {
  const recipe = twoStages('keep')
  recipe.reinforce = { ...(recipe.reinforce as NonNullable<Recipe['reinforce']>), groupSize: 2 }
  const run = 'older-copy'
  await putPart(store, gateKeys.gated(run, 'suite'), { suite: 'suite', repeats: 1, admitted: ['a', 'b'], refused: [] })
  for (const iteration of [1, 2]) {
    await putPart(store, runKeys.plan(run, 'dapo-1', iteration), {
      schema: 'longhaul.plan/1',
      run,
      stage: 'dapo-1',
      iteration,
      suite: 'suite',
      groupSize: 2,
      taskIds: ['a', 'b'],
    })
  }
  await putPart(store, runKeys.ledger(run, 'dapo-1', 1), { run, stage: 'dapo-1', iteration: 1, entries: [] })
  const graded = async (taskId: string, index: number): Promise<void> => {
    const record = makeRecord({
      run,
      stage: 'dapo-1',
      iteration: 1,
      taskId,
      index,
      verdict: index === 0 ? 'resolved' : 'unresolved',
    })
    await putPart(store, episodeKeys.result(record.episode), record)
  }
  await graded('a', 0)
  await graded('a', 1)
  await graded('b', 1)
  const second = { run, stage: 'dapo-2-keep-0.6667', iteration: 1, suite: 'suite' }
  await assert.rejects(planIteration({ store, recipe }, second), { code: 'Artifact.Missing' })
  assert.equal(await store.readRecord(runKeys.pool(run, second.stage)), null)
  await graded('b', 0)
  assert.equal((await planIteration({ store, recipe }, second)).tasks, 2)
})

test('evaluations inside a stage play gated quick tasks, and those between stages play all', async () => {
  const recipe = twoStages('keep')
  recipe.evaluate = { ...recipe.evaluate, quick: ['never', 'easy', 'refused-by-the-gate'] }
  const played = async (stage: string): Promise<string[]> => {
    await planIteration({ store, recipe }, { run: 'r', stage, iteration: 0, suite: 'suite' })
    return (await readOrThrow<IterationPlan>(store, runKeys.plan('r', stage, 0))).taskIds
  }
  assert.deepEqual(await played('eval-dapo-1-0005'), ['easy', 'never'])
  assert.deepEqual(await played('eval-dapo-1'), ['easy', 'half', 'never', 'unseen'])
  recipe.evaluate.quick = ['refused-by-the-gate']
  await assert.rejects(
    planIteration({ store, recipe }, { run: 'r', stage: 'eval-dapo-1-0010', iteration: 0, suite: 'suite' }),
    (error) => isLonghaulError(error) && error.code === 'Task.GateFailed' && /evaluate\.quick/.test(error.message),
  )
})

// The story: an operator stopped the stage after its second iteration, and the run ended. Later a person resets the stage, or the root,
// without the signals and updates that it had received. It would play a third iteration, and promote what that trained with the score of
// the policy before.
test('an iteration is not begun once the evaluation after its stage is planned; one that was begun before goes on', async () => {
  const recipe = twoStages('keep')
  const of = (iteration: number) =>
    planIteration({ store, recipe }, { run: 's', stage: 'dapo-1', iteration, suite: 'suite' })
  await putPart(store, gateKeys.gated('s', 'suite'), { suite: 'suite', repeats: 1, admitted: ['a', 'b'], refused: [] })
  const planned = await of(2)
  assert.equal(planned.over, undefined)
  await planIteration({ store, recipe }, { run: 's', stage: 'eval-dapo-1', iteration: 0, suite: 'suite' })
  assert.deepEqual(await of(2), planned)
  assert.deepEqual(await of(3), { ...planned, over: true, tasks: 0 })
  assert.equal(await store.readRecord(runKeys.plan('s', 'dapo-1', 3)), null)
})
