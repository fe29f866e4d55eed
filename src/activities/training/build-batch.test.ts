import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeAction, makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { Ledger } from '../../domain/ledger/ledger.ts'
import { importBasePolicy } from '../../adapters/trainer-job/job/policy-directory.ts'
import { decodeSafetensors } from '../../adapters/trainer-job/batch/safetensors.ts'
import { buildBatch } from './build-batch.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let store: ArtifactStore
/** Of a policy: only what a batch says about it. */
let directory: string
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
  directory = await mkdtemp(join(tmpdir(), 'policy-'))
  await writeFile(join(directory, 'config.json'), '{"vocab_size": 300}')
  await writeFile(join(directory, 'tokenizer.json'), '{}')
})

after(async () => {
  await close()
  await rm(directory, { recursive: true, force: true })
})

test('the demonstration is removed from the training text, or kept as context as the recipe says', async () => {
  for (const [run, trainWithDemonstration, first] of [
    ['without', false, [257, 7]],
    ['with', true, [257, 1, 2, 3]],
  ] as const) {
    const policy = { ...policyRef(0), uri: pathToFileURL(directory).href }
    const record = makeRecord({ run, stage: 'rft', verdict: 'resolved', turns: 1, policy: policy.version })
    const { episode } = record
    const action = makeAction(record, 0)
    await putPart(store, episodeKeys.result(episode), record)
    const start = { schema: 'longhaul.episode-start/1', episode, trainingPromptIds: [257, 7] }
    await putPart(store, episodeKeys.start(episode), start)
    await putPart(store, episodeKeys.action(episode, 0), action)
    const recipe = makeTrainingRecipe()
    Object.assign(recipe, { rollout: { sampling: NEUTRAL_SAMPLING } })
    Object.assign(recipe.rft ?? {}, { demonstration: true, trainWithDemonstration })
    await buildBatch({ store, recipe }, { run, stage: 'rft', iteration: 1, policy, suite: 's' })
    const tensors = decodeSafetensors(
      await readFile(store.path(`${runKeys.batch(run, 'rft', 1, 0)}/batch.safetensors`)),
    )
    const bytes = (name: string) => new Uint8Array(tensors.get(name)?.bytes ?? []).buffer
    assert.deepEqual([...new Int32Array(bytes('input_ids'))], [...first, ...action.ids])
    // What was demonstrated has no loss; what the policy said has, and only beside the prompt that it saw log-probabilities too.
    assert.deepEqual([...new Uint8Array(bytes('loss_mask'))], [...first.map(() => 0), 1, 1, 1])
    assert.equal(tensors.has('behaviour_logprobs'), trainWithDemonstration)
  }
})

test('an episode from a chat endpoint never trains, even when its record says resolved', async () => {
  const policy = policyRef(0)
  const record = makeRecord({ stage: 'rft', iteration: 1, verdict: 'resolved', turns: 1, policy: policy.version })
  const { episode } = record
  const chat = { model: 'm', ending: 'stop', usage: null }
  await putPart(store, episodeKeys.result(episode), record)
  await putPart(store, episodeKeys.start(episode), {
    schema: 'longhaul.episode-start/1',
    episode,
    trainingPromptIds: null,
  })
  await putPart(store, episodeKeys.action(episode, 0), makeAction(record, 0, { chat, ids: [], logprobs: [] }))
  const input = { run: 'r', stage: 'rft', iteration: 1, policy, suite: 's' }
  await assert.rejects(
    buildBatch({ store, recipe: makeTrainingRecipe() }, input),
    (error) =>
      isLonghaulError(error) && error.code === 'Model.NoTokenIds' && /graded, never trained on/.test(error.message),
  )
})

test('two of three repairs of one task fine-tune, and the ledger names the suspected hack of the third', async () => {
  const directory = join(import.meta.dirname, '../../../policies/demo-base/model')
  const policy = await importBasePolicy({ store, directory })
  const place = { run: 'hacked', stage: 'rft', iteration: 1 }
  const records = [0, 1, 2].map((index) =>
    makeRecord({
      ...place,
      taskId: 'task',
      index,
      verdict: 'resolved',
      turns: 1,
      policy: policy.version,
      ...(index === 1 ? { suspectedHack: true, signs: ['conftest' as const] } : {}),
    }),
  )
  for (const record of records) await storeEpisode(record)
  const input = { ...place, policy, suite: 's' }
  const recipe = { ...makeTrainingRecipe(), rollout: { sampling: NEUTRAL_SAMPLING } } as Recipe
  const built = await buildBatch({ store, recipe }, input)

  assert.equal(built.trajectories, 2)
  const [batch] = built.batches
  assert.ok(batch !== undefined)
  const manifest = JSON.parse(Buffer.from(await store.get(batch)).toString('utf8')) as {
    trajectories: { id: string }[]
    groups: { outcomes: number[] }[]
  }
  const [first, hacked, last] = records.map(({ episode }) => episode)
  assert.deepEqual(manifest.trajectories.map(({ id }) => id).sort(), [first, last])
  assert.deepEqual(
    manifest.groups.map(({ outcomes }) => outcomes),
    [[1, 0, 1]],
  )
  const ledger = await store.readRecord<Ledger>(runKeys.ledger('hacked', 'rft', 1))
  assert.deepEqual(
    ledger?.entries.find(({ episode }) => episode === hacked),
    { episode: hacked, fate: 'dropped', because: 'suspected-hack' },
  )
})

async function storeEpisode(record: EpisodeRecord): Promise<void> {
  const { episode } = record
  await putPart(store, episodeKeys.result(episode), record)
  await putPart(store, episodeKeys.start(episode), {
    schema: 'longhaul.episode-start/1',
    episode,
    trainingPromptIds: null,
  })
  for (let turn = 0; turn < record.turns; turn++) {
    await putPart(store, episodeKeys.action(episode, turn), makeAction(record, turn))
  }
}
