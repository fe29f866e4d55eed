import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import { importBasePolicy } from '../../adapters/trainer-job/job/policy-directory.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import { keptForRun, promote, referencePolicy, resolvePolicy } from './policies.ts'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const dirs = [fileURLToPath(new URL('../../../recipes', import.meta.url))]
const root = await mkdtemp(join(tmpdir(), 'longhaul-policies-'))
after(() => rm(root, { recursive: true }))

test('refuses a base that was imported with another chat format than the recipe’s', async () => {
  const store = createDirectoryStore({ root: join(root, 'store') })
  const { recipe } = await loadRecipe({ name: 'demo', dirs })
  const directory = join(root, 'model')
  await mkdir(directory)
  await writeFile(join(directory, 'config.json'), '{"vocab_size": 7, "max_position_embeddings": 4096}')
  await writeFile(join(directory, 'tokenizer.json'), '{}')
  await writeFile(join(directory, 'model.safetensors'), 'x')
  const importBase = () => importBasePolicy({ store, directory })
  const resolve = (chatFormat: 'chatml' | 'llama3') =>
    resolvePolicy({ store, recipe: { ...recipe, model: { ...recipe.model, chatFormat } }, importBase }, 'base')
  // A directory that nothing imported says nothing: the recipe's word counts.
  await resolve('llama3')
  await writeFile(join(directory, 'longhaul.json'), '{"chat_format": "llama3"}')
  await resolve('llama3')
  await assert.rejects(resolve('chatml'), {
    code: 'Config.Invalid',
    message: /model\.chatFormat to be llama3.*got chatml/,
  })
})

test('lists promotions whose files exist once each, newest first, and a continued run keeps its list', async () => {
  const store = createDirectoryStore({ root: join(root, 'kept') })
  const { recipe } = await loadRecipe({ name: 'nightly', dirs })
  const importBase = () => Promise.reject(new Error('not asked for'))
  const nothing = {
    code: 'Config.NotFound',
    message:
      /^No policy has been promoted yet, so there is none to evaluate\. Either promote one \(longhaul train.*or evaluate another: --policy base.*kind: chat\)$/,
  }
  await assert.rejects(keptForRun({ store, recipe }, 'early'), nothing)
  await assert.rejects(resolvePolicy({ store, recipe, importBase }, 'recipe'), nothing)

  const publish = async (step: number, run: string, gone = false): Promise<PolicyRef> => {
    const directory = join(root, `policy-${step}`)
    const version = `v00000${step}-0123abcd`
    if (!gone) {
      await mkdir(directory, { recursive: true })
      await writeFile(join(directory, 'config.json'), '{"vocab_size": 7, "max_position_embeddings": 4096}')
      await writeFile(join(directory, 'tokenizer.json'), '{}')
    }
    const policy: PolicyRef = {
      version,
      uri: pathToFileURL(directory).href,
      manifestSha256: '',
      globalStep: step,
      checkpointUri: null,
      checkpointSha256: null,
    }
    await store.putRecord(policyKeys.ref(version), policy)
    const score = { name: 'rl', policy: version, passAt1: 0, sem: 0, tasks: 1, attempts: 1 }
    await promote(store, { run, policy, score })
    return policy
  }
  await publish(1, 'a')
  await publish(2, 'b', true)
  await publish(3, 'c')
  await publish(1, 'd')
  const versions = async (run: string) =>
    (await keptForRun({ store, recipe }, run)).policies.map(({ globalStep }) => globalStep)
  assert.deepEqual(await versions('night'), [1, 3])
  const away = async () => {
    throw new LonghaulError({ code: 'Artifact.Unavailable', message: 'the bucket is away' })
  }
  const cutOff = { ...store, weights: { ...store.weights, readFile: away } }
  await assert.rejects(keptForRun({ store: cutOff, recipe }, 'cut-off'), { code: 'Artifact.Unavailable' })
  await publish(4, 'e')
  assert.deepEqual(await versions('night'), [1, 3])
  assert.deepEqual(await versions('next'), [4, 1, 3])
  const named = await resolvePolicy(
    { store, recipe: { ...recipe, evaluate: { ...recipe.evaluate, policy: 'v000003-0123abcd' } }, importBase },
    'recipe',
  )
  assert.equal(named.globalStep, 3)
})

// The story: the attempt that promoted dies before it answers, and the bucket still lists the promotions without that one.
test('a repeated promotion finds its own number although the store lists an older state', async () => {
  const store = createDirectoryStore({ root: join(root, 'stale') })
  const promotionOf = (run: string, on = store) =>
    promote(on, {
      run,
      policy: policyRef(1),
      score: { name: 'rl', policy: policyRef(1).version, passAt1: 0, sem: 0, tasks: 1, attempts: 1 },
    })
  await promotionOf('a')
  const listed = await store.list(policyKeys.promotions)
  const stale = { ...store, list: async () => listed }
  assert.deepEqual(await promotionOf('b', stale), { number: 2 })
  assert.deepEqual(await promotionOf('b', stale), { number: 2 })
  assert.equal((await store.list(policyKeys.promotions)).length, 2)
})

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
