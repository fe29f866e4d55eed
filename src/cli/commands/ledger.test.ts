/** `ledger verify` on a real store: a batch that the product built, then each way in which files can disagree with it. */
import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { makeAction, makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { buildBatch } from '../../activities/training/build-batch.ts'
import type { LedgerCheck } from '../../activities/training/check-ledger.ts'
import { importBasePolicy } from '../../adapters/trainer-job/job/policy-directory.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'

const PLACE = { run: 'books', stage: 'rft', iteration: 1 }

let store: ArtifactStore
let close: () => Promise<void>
let records: EpisodeRecord[]

before(async () => {
  ;({ store, close } = await useOwnStore())
  const directory = join(import.meta.dirname, '../../../policies/demo-base/model')
  const policy = await importBasePolicy({ store, directory })
  const fields = { ...PLACE, taskId: 'task', turns: 1, policy: policy.version }
  records = [
    makeRecord({ ...fields, index: 0, verdict: 'resolved' }),
    makeRecord({ ...fields, index: 1, verdict: 'unresolved' }),
    makeRecord({ ...fields, index: 2, disposition: 'infra', verdict: null, failure: 'Sandbox.Lost' }),
    makeRecord({ ...fields, index: 3, verdict: 'resolved' }),
  ]
  for (const record of records) {
    const { episode } = record
    await store.putRecord(episodeKeys.result(episode), record)
    const start = { schema: 'longhaul.episode-start/1', episode, trainingPromptIds: null }
    await store.putRecord(episodeKeys.start(episode), start)
    await store.putRecord(episodeKeys.action(episode, 0), makeAction(record, 0))
  }
  const recipe = { ...makeTrainingRecipe(), rollout: { sampling: NEUTRAL_SAMPLING } } as Recipe
  await store.putRecord(runKeys.recipe(PLACE.run), { schema: 'longhaul.recipe/1', hash: 'test', recipe })
  await buildBatch({ store, recipe }, { ...PLACE, policy, suite: 's' })
})

after(() => close())

async function verify(): Promise<{ exitCode: number; check: LedgerCheck }> {
  const { exitCode, stdout } = await longhaul('ledger', 'verify', PLACE.run, '--json')
  return { exitCode, check: JSON.parse(stdout) as LedgerCheck }
}

test('what the product wrote adds up: each episode once, with the reason of each that did not train', async () => {
  const { exitCode, check } = await verify()
  assert.deepEqual([exitCode, check.mismatches], [0, []])
  assert.deepEqual(check.totals, {
    episodes: 4,
    trained: 2,
    evaluated: 0,
    dropped: { unresolved: 1 },
    excluded: { infra: 1 },
  })
  const { stdout } = await longhaul('ledger', 'verify', PLACE.run)
  assert.match(stdout, /it adds up: each episode exactly once/)
})

test('an episode that nothing accounts for, one without a record, one in two batches: each is found, exit 2', async () => {
  const lost = makeRecord({ ...PLACE, taskId: 'task', index: 9, verdict: 'resolved', turns: 1 })
  await store.putRecord(episodeKeys.result(lost.episode), lost)
  assert.deepEqual(await kindsOf(), [2, ['missing']])
  await rm(store.path(episodeKeys.result(lost.episode)))

  const [first] = records
  assert.ok(first !== undefined)
  const path = store.path(episodeKeys.result(first.episode))
  await rm(path)
  assert.deepEqual(await kindsOf(), [2, ['unknown-episode']])
  await store.putRecord(episodeKeys.result(first.episode), first)

  const again = `${runKeys.batch(PLACE.run, PLACE.stage, PLACE.iteration, 7)}/batch.json`
  await store.put(again, Buffer.from(JSON.stringify({ trajectories: [{ id: first.episode }] })))
  const [exitCode, kinds] = await kindsOf()
  assert.equal(exitCode, 2)
  assert.ok(kinds.includes('in-two-batches'), kinds.join(' '))
  const { stdout } = await longhaul('ledger', 'verify', PLACE.run)
  assert.match(stdout, /\d mismatches$/m)
  await rm(store.path(again))
})

test('a result that was changed from lost to failed: the rules say something else than the ledger, exit 2', async () => {
  const lost = records[2]
  assert.ok(lost !== undefined)
  const key = episodeKeys.result(lost.episode)
  await rm(store.path(key))
  await store.putRecord(key, { ...lost, disposition: 'submitted', verdict: 'unresolved', failure: null })
  assert.deepEqual(await kindsOf(), [2, ['other-fate']])
})

async function kindsOf(): Promise<[number, string[]]> {
  const { exitCode, check } = await verify()
  return [exitCode, check.mismatches.map(({ kind }) => kind)]
}
