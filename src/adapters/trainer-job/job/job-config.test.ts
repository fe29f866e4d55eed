import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeTrainingRecipe } from '../../../../test/support/training-records.ts'
import type { OptimizerRecipe } from '../../../contracts/recipe.types.ts'
import { jobConfig } from './job-config.ts'

/** No two values alike, and none of them a default. */
const OPTIM: OptimizerRecipe = {
  name: 'adamw',
  lr: 3e-6,
  betas: [0.91, 0.96],
  eps: 3e-9,
  weightDecay: 0.13,
  gradClip: 0.7,
  states: 'float32',
  schedule: 'cosine',
  warmupSteps: 11,
  endLr: 2e-7,
}

function configOf(kind: 'rft' | 'dapo', changes: Partial<OptimizerRecipe> = {}, totalSteps = 40) {
  const recipe = structuredClone(makeTrainingRecipe())
  const part = kind === 'rft' ? recipe.rft : recipe.reinforce
  assert.ok(part !== null)
  part.optim = { ...OPTIM, ...changes }
  return jobConfig({ recipe, kind, stage: kind === 'rft' ? 'rft' : 'dapo-1', optimizerInit: 'fresh', totalSteps })
}

test('every optimizer setting of the recipe reaches the trainer, in both kinds of jobs', () => {
  for (const kind of ['rft', 'dapo'] as const) {
    const expected = { name: 'adamw', lr: 3e-6, betas: [0.91, 0.96], eps: 3e-9, weight_decay: 0.13, grad_clip: 0.7 }
    assert.deepEqual(configOf(kind)['optimizer'], expected, kind)
    assert.deepEqual(configOf(kind, { states: 'bfloat16' })['optimizer'], { ...expected, states: 'bfloat16' }, kind)
  }
})

test('warm-up and decay reach the trainer, also in a stage shorter than its warm-up and at a constant rate', () => {
  for (const kind of ['rft', 'dapo'] as const) {
    for (const schedule of ['cosine', 'linear'] as const) {
      const shape = { kind: schedule, end_lr: 2e-7 }
      const config = configOf(kind, { schedule })
      assert.deepEqual(config['schedule'], { ...shape, warmup_steps: 11, total_steps: 40 })
      assert.deepEqual(configOf(kind, { schedule }, 6)['schedule'], { ...shape, warmup_steps: 5, total_steps: 6 })
    }
    assert.deepEqual(configOf(kind, { schedule: 'constant' })['schedule'], { kind: 'constant', warmup_steps: 11 })
  }
})
