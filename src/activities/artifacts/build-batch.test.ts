import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeAction, makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { episodeKeys } from '../../contracts/keys.ts'
import { buildBatch } from './build-batch.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

test('an episode that a chat endpoint played is never trained on, even where its record says resolved', async () => {
  const policy = policyRef(0)
  const record = makeRecord({ stage: 'rft', iteration: 1, verdict: 'resolved', turns: 1, policy: policy.version })
  const { episode } = record
  const chat = { model: 'm', ending: 'stop', usage: null }
  await store.putRecord(episodeKeys.result(episode), record)
  await store.putRecord(episodeKeys.start(episode), {
    schema: 'longhaul.episode-start/1',
    episode,
    trainingPromptIds: null,
  })
  await store.putRecord(episodeKeys.action(episode, 0), makeAction(record, 0, { chat, ids: [], logprobs: [] }))
  const input = { run: 'r', stage: 'rft', iteration: 1, kind: 'rft' as const, policy, suite: 's' }
  await assert.rejects(
    buildBatch({ store, recipe: makeTrainingRecipe() }, input),
    (error) =>
      isLonghaulError(error) && error.code === 'Model.NoTokenIds' && /graded, never trained on/.test(error.message),
  )
})
