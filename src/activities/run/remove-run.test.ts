/** What a removal takes beside a run's own folders. `src/cli/commands/run-remove.test.ts` removes runs beside a Temporal server. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { putPart } from '../../../test/support/record-examples.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { episodeId, episodeKeys, gradingKeys } from '../../contracts/keys.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { lookAtHoldings, removeRun } from './remove-run.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-remove-run-'))
after(() => rmSync(root, { recursive: true, force: true }))
const store = createDirectoryStore({ root })

const episode = episodeId({ run: 'source', stage: 'rl', iteration: 1, taskId: 'task', index: 0 })
const profile = 'fork-4.0.3'
const patchSha256 = sha256Hex('patch')

/** A run that grades a patch of `source` again, and has a verdict. */
async function storeRegrading(run: string): Promise<string> {
  const patch = await store.put(episodeKeys.patch(episode), Buffer.from('patch'))
  const instances = [
    { suite: 'a'.repeat(64), taskId: 'task', profile, model: 'm', patch, fault: null, episode, before: null },
  ]
  const source = { kind: 'run', run: 'source', stages: [] }
  await putPart(store, gradingKeys.plan(run), { run, source, profile: null, suite: null, instances, runnable: 1 })
  const key = gradingKeys.file({ run, taskId: 'task', profile, episode, patchSha256 }, 'verdict.json')
  await putPart(store, key, { episode: `${run}/again/${episode}`, taskId: 'task' })
  return key
}

test('a regrading takes its verdicts along, so that a later run of its name grades again', async () => {
  const [key, other] = [await storeRegrading('again'), await storeRegrading('again-2')]
  assert.equal((await lookAtHoldings(store, 'again')).records, 2)
  assert.deepEqual(await removeRun(store, 'again', async () => null), { run: 'again', removed: 2 })
  assert.equal(await store.read(key), null)
  assert.notEqual(await store.read(other), null)
  assert.notEqual(await store.read(episodeKeys.patch(episode)), null)
})

test('a run is needed while another grades its patches again', async () => {
  await storeRegrading('again-3')
  assert.deepEqual((await lookAtHoldings(store, 'source')).regradedBy, ['again-2', 'again-3'])
  await putPart(store, gradingKeys.result('again-3'), { run: 'again-3' })
  assert.deepEqual((await lookAtHoldings(store, 'source')).regradedBy, ['again-2'])
  assert.deepEqual((await lookAtHoldings(store, 'again-2')).regradedBy, [])
})
