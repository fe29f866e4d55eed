import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { referencePolicy } from './reference-policy.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

function pulled(reference: 'base' | 'start', { tuned = true } = {}): Recipe {
  const recipe = makeTrainingRecipe()
  assert.ok(recipe.reinforce !== null)
  recipe.reinforce.loss.kl = { coefficient: 0.1, reference }
  return tuned ? recipe : { ...recipe, rft: null }
}

/** Fine-tuning that made the policy of step 4, or ended without a batch. */
async function fineTuned(run: string, { batches = 1 } = {}): Promise<void> {
  await putPart(store, runKeys.policy(run, 'base'), policyRef(0))
  if (batches > 0) {
    await store.put(`${runKeys.batch(run, 'rft', 0, 0)}/batch.json`, Buffer.from('{"trajectories":[]}'))
    const training = { schema: 'longhaul.training/1', policy: policyRef(4).version }
    await putPart(store, runKeys.training(run, 'rft', 0, 0), training)
    await putPart(store, policyKeys.ref(policyRef(4).version), policyRef(4))
  }
  await putPart(store, runKeys.ledger(run, 'rft', 0), {
    schema: 'longhaul.ledger/1',
    stage: 'rft',
    iteration: 0,
    entries: [],
  })
}

const find = (recipe: Recipe, run: string, kind: 'rft' | 'dapo' = 'dapo') =>
  referencePolicy({ store, recipe }, { run, kind })

test('the reference is the base, or its fine-tuned policy', async () => {
  await fineTuned('tuned')
  assert.equal((await find(pulled('base'), 'tuned'))?.version, policyRef(0).version)
  assert.equal((await find(pulled('start'), 'tuned'))?.version, policyRef(4).version)
  assert.equal((await find(pulled('start', { tuned: false }), 'tuned'))?.version, policyRef(0).version)
  await fineTuned('untouched', { batches: 0 })
  assert.equal((await find(pulled('start'), 'untouched'))?.version, policyRef(0).version)
})

test('fine-tuning and a loss without KL have no reference', async () => {
  assert.equal(await find(pulled('start'), 'nothing', 'rft'), null)
  assert.equal(await find(makeTrainingRecipe(), 'nothing'), null)
})

test('a run without the record of its reference fails', async () => {
  await assert.rejects(find(pulled('base'), 'nothing'), { code: 'Artifact.Missing' })
  await putPart(store, runKeys.policy('unfinished', 'base'), policyRef(0))
  await assert.rejects(find(pulled('start'), 'unfinished'), { code: 'Artifact.Missing' })
})
