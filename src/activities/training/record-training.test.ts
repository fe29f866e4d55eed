import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { TrainingRecord } from '../../contracts/training.types.ts'
import { recordTraining } from './record-training.ts'

const root = await mkdtemp(join(tmpdir(), 'record-training-'))
after(() => rm(root, { recursive: true, force: true }))
const store = createDirectoryStore({ root })

interface Place {
  run: string
  kind: 'rft' | 'dapo'
  iteration?: number
  slice?: number
}

function record(
  { run, kind, iteration = 0, slice = 0 }: Place,
  steps: Record<string, unknown>[],
  alarms: Partial<Recipe['trainer']['alarms']> = {},
): Promise<string | null> {
  const recipe = makeTrainingRecipe()
  Object.assign(recipe.trainer.alarms, alarms)
  const stage = kind === 'rft' ? 'rft' : 'dapo-1'
  const job = { run, stage, kind, iteration, slice } as TrainingJobInput
  return recordTraining({ store, recipe, job, policy: 'v000004-1a2b3c4d', metrics: steps })
}

const CALM = { loss: 0.4, grad_norm: 1.5, entropy: 0.8 }

test('a fine-tuning job with an exploding gradient pauses the run, and a mere warning does not', async () => {
  const steps = [CALM, { ...CALM, grad_norm: 200 }]
  assert.equal(await record({ run: 'a', kind: 'rft' }, steps), null)
  const why = await record({ run: 'b', kind: 'rft' }, steps, { gradNorm: 50 })
  assert.equal(why, 'grad_norm is 200, above 50, at optimizer step 2')
  assert.equal(await record({ run: 'c', kind: 'rft' }, steps, { gradNorm: 50, onAlarm: 'warn' }), null)
  const kept = await store.readRecord<TrainingRecord>(runKeys.training('c', 'rft', 0, 0))
  assert.equal(kept?.alarms.length, 1)
})

test('a step record keeps figures of reference, experts and pairs and drops unknown ones', async () => {
  const figures = { kl_reference: 0.1, expert_tokens: 6, expert_nll: 2.5, pairs: 2, pair_accuracy: 0.5 }
  const rewards = { chosen_reward: 0.2, rejected_reward: -0.1 }
  await record({ run: 'g', kind: 'dapo' }, [{ ...CALM, ...figures, ...rewards, seconds: 3 }])
  const kept = await store.readRecord<TrainingRecord>(runKeys.training('g', 'dapo-1', 0, 0))
  assert.deepEqual(kept?.steps, [{ ...CALM, ...figures, ...rewards }])
})

test('entropy is compared with the first job of its stage, also after iterations without training', async () => {
  const limits = { entropyShare: 0.5 }
  assert.equal(await record({ run: 'd', kind: 'dapo', iteration: 2 }, [CALM, { ...CALM, entropy: 0.5 }], limits), null)
  // Half of 0.8; the job's own first step, 0.42, would find nothing.
  const later = [
    { ...CALM, entropy: 0.42 },
    { ...CALM, entropy: 0.39 },
  ]
  const why = await record({ run: 'd', kind: 'dapo', iteration: 5 }, later, limits)
  assert.equal(why, 'entropy is 0.39, below 0.4, at optimizer step 2')
  assert.equal(await record({ run: 'e', kind: 'rft', slice: 1 }, later, limits), null)
})

test('a stage ends with the measured gap when sampler and trainer are no longer the same model', async () => {
  const steps = [{ ...CALM, k1: -4, k3: 3 }]
  const job = record({ run: 'f', kind: 'dapo', iteration: 1 }, steps, { onAlarm: 'warn' })
  await assert.rejects(job, { code: 'Trainer.Diverged', retryable: false, message: /k1 is -4, above 1.*not published/ })
  const kept = await store.readRecord<TrainingRecord>(runKeys.training('f', 'dapo-1', 1, 0))
  assert.deepEqual(
    kept?.alarms.map(({ metric }) => metric),
    ['k1', 'k3'],
  )
  // A later attempt finds the same job committed, and says the same again.
  await assert.rejects(record({ run: 'f', kind: 'dapo', iteration: 1 }, steps), { code: 'Trainer.Diverged' })
  assert.equal(
    await record({ run: 'g', kind: 'dapo', iteration: 1 }, steps, { divergedKl: null, onAlarm: 'warn' }),
    null,
  )
})
