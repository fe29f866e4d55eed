import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recipeFileSchema } from './recipe.schema.ts'

const suite = { kind: 'synthetic', seed: 1, split: 'train', count: 4 } as const
const smallest = {
  model: { base: 'a' },
  data: { train: suite, heldOut: suite },
  evaluate: { attempts: 1, maxTurns: 6, context: 640 },
}

test('the smallest recipe gets defaults for every other key and neutral decoding', () => {
  const recipe = recipeFileSchema.parse(smallest)
  assert.equal(recipe.rft, null)
  assert.equal(recipe.reinforce, null)
  assert.deepEqual(recipe.rollout.sampling, {
    temperature: 1,
    topP: 1,
    topK: -1,
    minP: 0,
    repetitionPenalty: 1,
    presencePenalty: 0,
    frequencyPenalty: 0,
  })
  assert.equal(recipe.data.gate.repeats, 3)
  assert.equal(recipe.scaffold.submit.capture, 'unstaged')
})

test('a recipe cannot change rules of the paper', () => {
  const stage = {
    name: 'dapo-1',
    context: 640,
    maxTurns: 6,
    penaltyStart: 4,
    problemsPerIteration: 2,
    batch: 4,
    clip: { low: 0.2, high: 0.3 },
    until: { maxIterations: 1 },
  }
  const reinforce = { groupSize: 4, optim: { lr: 1e-6 }, stages: [stage] }
  assert.equal(recipeFileSchema.safeParse({ ...smallest, reinforce }).success, true)
  for (const change of [{ loss: { kl: 0.1 } }, { mode: 'async' }, { advantage: { ddof: 0 } }, { overlong: 'drop' }]) {
    assert.equal(recipeFileSchema.safeParse({ ...smallest, reinforce: { ...reinforce, ...change } }).success, false)
  }
})

test('refuses an unknown key anywhere', () => {
  assert.equal(recipeFileSchema.safeParse({ ...smallest, extra: 1 }).success, false)
  assert.equal(recipeFileSchema.safeParse({ ...smallest, trainer: { gpus: 1 } }).success, false)
})

test('a synthetic suite names an existing family, and the first one is the default', () => {
  const withFamily = (family?: string) => ({ ...smallest, data: { train: { ...suite, family }, heldOut: suite } })
  assert.equal(recipeFileSchema.safeParse(withFamily('half-renamed')).success, true)
  const parsed = recipeFileSchema.safeParse(withFamily())
  const { train } = parsed.data?.data ?? {}
  assert.equal(train?.kind === 'synthetic' ? train.family : null, 'one-wrong-line')
  const refused = recipeFileSchema.safeParse(withFamily('half-named'))
  assert.match(refused.error?.message ?? '', /one-wrong-line.*half-renamed/s)
})
