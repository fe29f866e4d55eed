/** The story: a power cut tears a record. Its episode is lost; what is written about the loss must not stumble over it again. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Disposition, EpisodeRecord } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys } from '../../contracts/keys.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { recordUngraded } from '../grading/grade-submission.ts'
import { recordOutcome } from './episode-result.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let folder: string
let store: ArtifactStore

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-outcome-'))
  store = createDirectoryStore({ root: folder })
})

after(() => rm(folder, { recursive: true, force: true }))

/** An episode of two turns whose second observation is torn. */
async function tornEpisode(index: number): Promise<EpisodeInput> {
  const input: EpisodeInput = {
    run: 'r',
    stage: 's',
    iteration: 0,
    taskId: 't',
    index,
    policy: 'v000000-aaaaaaaa',
    suite: 'x',
  }
  const episode = episodeId(input)
  for (const turn of [0, 1]) {
    const action = { turn, promptDelta: [1, 2], ids: [3], command: null, formatError: 'cannot_extract_command' }
    await putPart(store, episodeKeys.action(episode, turn), action)
    if (turn === 0) await putPart(store, episodeKeys.observation(episode, turn), { turn, text: '', execution: null })
  }
  await writeFile(store.path(episodeKeys.observation(episode, 1)), '{"schema":"longhaul.obs')
  return input
}

test('a lost episode with a torn observation is recorded with the turns before it', async () => {
  const input = await tornEpisode(0)
  const result = await recordUngraded(store, { ...input, disposition: 'infra', failure: 'Artifact.Corrupt' })
  assert.deepEqual([result.disposition, result.verdict, result.turns], ['infra', null, 1])
})

test('a torn record of an episode that counts is an error', async () => {
  const input = await tornEpisode(1)
  const outcome = { failure: null, verdictReason: null, signs: [], patchBytes: 0 }
  const graded = recordOutcome(store, input, { ...outcome, disposition: 'submitted', verdict: 'unresolved' })
  await assert.rejects(graded, { code: 'Artifact.Corrupt' })
})

test('a torn verdict counts as could-not-grade with the reason', async () => {
  const input = await tornEpisode(2)
  const episode = episodeId(input)
  await writeFile(store.path(episodeKeys.verdict(episode)), '{"schema":"longhaul.verd')
  await recordUngraded(store, { ...input, disposition: 'submitted', failure: 'Artifact.Corrupt' })
  const record = await store.readRecord<EpisodeRecord>(episodeKeys.result(episode))
  assert.deepEqual([record?.verdict, record?.verdictReason], ['could-not-grade', 'Artifact.Corrupt'])
})

test('only a sign that voids the reward makes the record a suspected hack', async () => {
  const graded = { disposition: 'submitted', failure: null, verdict: 'resolved', verdictReason: null } as const
  for (const [index, signs, suspected] of [
    [10, ['test-files', 'conftest'], true],
    [11, ['test-files'], false],
    [12, [], false],
  ] as const) {
    const input: EpisodeInput = { ...(await tornEpisode(index)) }
    await rm(store.path(episodeKeys.observation(episodeId(input), 1)))
    await settle(input, 'submitted', 1)
    await recordOutcome(store, input, { ...graded, signs: [...signs], patchBytes: 10 })
    const record = await store.readRecord<EpisodeRecord>(episodeKeys.result(episodeId(input)))
    assert.deepEqual([record?.suspectedHack, record?.verdict], [suspected, 'resolved'], signs.join())
  }
})

/** The story: an older copy of the store is restored, so turns that were played have no records any more. */
test('a verdict never counts for fewer turns than the episode has played', async () => {
  const outcome = { failure: null, verdict: 'resolved' as const, verdictReason: null, signs: [], patchBytes: 0 }
  for (const [index, turns] of [
    [20, 2],
    [21, null],
  ] as const) {
    const input = await tornEpisode(index)
    await rm(store.path(episodeKeys.observation(episodeId(input), 1)))
    if (turns !== null) await settle(input, 'submitted', turns)
    await assert.rejects(recordOutcome(store, input, { ...outcome, disposition: 'submitted' }), {
      code: 'Artifact.Missing',
    })
    assert.equal(await store.readRecord(episodeKeys.result(episodeId(input))), null)
  }
})

test('an episode that has lost turns has no reward, whatever its ending and its verdict say', async () => {
  for (const [index, disposition] of [
    [30, 'submitted'],
    [31, 'turn-limit'],
    [32, 'context-limit'],
  ] as const) {
    const input = await tornEpisode(index)
    await rm(store.path(episodeKeys.observation(episodeId(input), 1)))
    await settle(input, disposition, 2)
    await putPart(store, episodeKeys.verdict(episodeId(input)), { schema: 'longhaul.verdict/1', kind: 'resolved' })
    const result = await recordUngraded(store, { ...input, disposition, failure: 'Artifact.Missing' })
    assert.deepEqual([result.disposition, result.verdict, result.turns], [disposition, 'could-not-grade', 1])
  }
})

test('an episode that ended its own sandboxes counts with the turns that it has', async () => {
  const input = await tornEpisode(40)
  await rm(store.path(episodeKeys.observation(episodeId(input), 1)))
  const result = await recordUngraded(store, { ...input, disposition: 'agent-gave-up', failure: 'Sandbox.Ended' })
  assert.deepEqual([result.verdict, result.turns], ['unresolved', 1])
})

async function settle(input: EpisodeInput, disposition: Disposition, turns: number): Promise<void> {
  const episode = episodeId(input)
  await putPart(store, episodeKeys.disposition(episode), {
    schema: 'longhaul.disposition/1',
    episode,
    disposition,
    turns,
  })
}
