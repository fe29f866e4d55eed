import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { putPart } from '../../../test/support/record-examples.ts'
import { GROUP } from '../../../test/support/scripted-pipeline.ts'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { Disposition } from '../../contracts/episodes.types.ts'
import { episodeId, episodeKeys, runKeys } from '../../contracts/keys.ts'
import { createOwnerRegistry } from '../../workers/workflow-owners.ts'
import { createIterationReader } from '../runtime/stored-records.ts'
import { claimPlacement } from './claim-placement.ts'
import { recordedEnding, requireOpenIteration, requireOwnPlace, requireSettled } from './open-sandbox.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

function claim(episode: string, ownerRun: string, requested: number): Promise<number> {
  return claimPlacement(store, { episode, ownerRun, requested, hostId: 'h', image: 'i' })
}

test('a second execution of an episode gets placement numbers above all earlier ones', async () => {
  assert.deepEqual([await claim('a', 'first', 1), await claim('a', 'first', 2)], [1, 2])
  assert.equal(await claim('a', 'second', 1), 3)
  assert.equal(await claim('a', 'third', 1), 4)
})

test('a repeated attempt finds the number that it claimed, also after later claims', async () => {
  assert.equal(await claim('b', 'first', 1), 1)
  assert.equal(await claim('b', 'first', 2), 2)
  assert.equal(await claim('b', 'second', 1), 3)
  assert.deepEqual([await claim('b', 'first', 1), await claim('b', 'second', 1)], [1, 3])
})

test('two executions that claim at once get two numbers', async () => {
  const numbers = await Promise.all(['x', 'y', 'z'].map((ownerRun) => claim('c', ownerRun, 1)))
  assert.deepEqual(new Set(numbers), new Set([1, 2, 3]))
})

test('a torn placement record uses up its number, and the next number is claimed', async () => {
  await claim('d', 'first', 1)
  await writeFile(store.path(episodeKeys.placement('d', 1)), '{"schema":')
  assert.equal(await claim('d', 'second', 1), 2)
})

// The reaper removes a container whose execution has placed the episode anew. A late attempt of an earlier execution lies in between.
test('an execution finds its later placement behind those of others, which do not count', async () => {
  await claim('e', 'ours', 1)
  await claim('e', 'late', 1)
  const owners = createOwnerRegistry({ connection: {} as never, namespace: 'n', store })
  const isSuperseded = (ownerRun: string): Promise<boolean> =>
    owners.hasPlacementAfter({ episode: 'e', fence: 1, ownerRun })
  assert.deepEqual([await isSuperseded('ours'), await isSuperseded('late')], [false, true])
  await claim('e', 'ours', 2)
  assert.equal(await isSuperseded('ours'), true)
})

const EPISODE = { ...GROUP, index: 0 }

test('an ending of an earlier execution is recalled as far as its records go', async () => {
  const episode = episodeId(EPISODE)
  assert.equal(await recordedEnding(store, EPISODE), null)
  const settled = { schema: 'longhaul.disposition/1', episode, disposition: 'submitted', turns: 3 }
  await putPart(store, episodeKeys.disposition(episode), settled)
  // Submitted, but nothing was captured: only a sandbox has the patch.
  assert.equal(await recordedEnding(store, EPISODE), null)
  const capture = { schema: 'longhaul.capture/1', episode, mode: 'all', lostFiles: 0, failure: null }
  await putPart(store, episodeKeys.capture(episode), { ...capture, sha256OfPatch: 'abc', bytes: 7 })
  assert.deepEqual(await recordedEnding(store, EPISODE), {
    kind: 'ended',
    disposition: 'submitted',
    patch: { key: episodeKeys.patch(episode), sha256: 'abc', bytes: 7 },
  })
  const result = { disposition: 'submitted', verdict: 'resolved', turns: 3, failure: null }
  await putPart(store, episodeKeys.result(episode), { schema: 'longhaul.episode-result/1', episode, ...result })
  const recalled = { episode, ...result, recalled: true }
  assert.deepEqual(await recordedEnding(store, EPISODE), { kind: 'result', result: recalled })
})

test('an episode that ran out of turns in an earlier execution needs only its grading', async () => {
  const episode = episodeId({ ...EPISODE, index: 1 })
  const settled = { schema: 'longhaul.disposition/1', episode, disposition: 'turn-limit', turns: 6 }
  await putPart(store, episodeKeys.disposition(episode), settled)
  const ending = await recordedEnding(store, { ...EPISODE, index: 1 })
  assert.deepEqual(ending, { kind: 'ended', disposition: 'turn-limit', patch: null })
})

// The story: a person completes a step by hand with a disposition, or a capture with a patch. The episode was not played to that end,
// and a verdict about it would be a reward.
test('only a recorded ending is graded', async () => {
  const input = { ...EPISODE, index: 2 }
  const episode = episodeId(input)
  const patch = { key: episodeKeys.patch(episode), sha256: 'abc', bytes: 7 }
  const grade = (disposition: Disposition, of: ArtifactRef | null) =>
    requireSettled(store, { ...input, disposition, patch: of })
  const refused = { code: 'Artifact.Missing' }

  await assert.rejects(grade('turn-limit', null), refused)
  await assert.rejects(grade('submitted', patch), refused)
  const settled = { schema: 'longhaul.disposition/1', episode, disposition: 'submitted', turns: 3 }
  await putPart(store, episodeKeys.disposition(episode), settled)
  await assert.rejects(grade('submitted', patch), refused)
  await assert.rejects(grade('submitted', null), refused)
  const capture = { schema: 'longhaul.capture/1', episode, mode: 'all', lostFiles: 0, failure: null }
  await putPart(store, episodeKeys.capture(episode), { ...capture, sha256OfPatch: 'abc', bytes: 7 })
  await assert.rejects(grade('submitted', { ...patch, sha256: 'def' }), refused)
  await assert.rejects(grade('submitted', null), refused)
  await assert.rejects(grade('turn-limit', null), refused)
  await grade('submitted', patch)

  const ran = { ...input, index: 3 }
  await putPart(store, episodeKeys.disposition(episodeId(ran)), {
    ...settled,
    episode: episodeId(ran),
    disposition: 'turn-limit',
  })
  await requireSettled(store, { ...ran, disposition: 'turn-limit', patch: null })
})

// The story: a group had lost more episodes than it may replace, and its iteration went on to training. Then a person resets the group: a
// new execution has all of its replacements again, and what they play would be in no ledger.
test('no episode is placed in an iteration whose ledger is written', async () => {
  const input = { ...EPISODE, iteration: 4 }
  await requireOpenIteration(store, input)
  await putPart(store, runKeys.ledger(input.run, input.stage, 4), { schema: 'longhaul.ledger/1' })
  await assert.rejects(requireOpenIteration(store, input), {
    code: 'Run.EndedByHand',
    message: /^Iteration 4 of .* has ended, and its ledger names each of its episodes/,
  })
  await requireOpenIteration(store, { ...input, iteration: 5 })
})

// The story: a person opens an episode in the Temporal UI, changes its index, and starts it once more. It would be a fifth one of a
// group of four, with a verdict that is trained on.
test('only episodes of a planned task are placed, and as many as its group needs', async () => {
  const at = (index: number, taskId = 'one') => ({ ...EPISODE, iteration: 6, index, taskId })
  const refused = (message: RegExp) => ({ code: 'Run.EndedByHand', message })
  const asked: string[] = []
  const readRecord = <T extends object>(key: string): Promise<T | null> => {
    asked.push(key)
    return store.readRecord<T>(key)
  }
  const places = { store: { readRecord }, readPlan: createIterationReader({ readRecord }) }
  await assert.rejects(requireOwnPlace(places, at(0)), refused(/iteration 6 of .* is not planned/))
  const { run, stage } = EPISODE
  await putPart(store, runKeys.plan(run, stage, 6), { groupSize: 2, taskIds: ['one'] })
  await putPart(store, runKeys.refill(run, stage, 6, 1), { taskIds: ['two'] })
  asked.length = 0
  for (const input of [at(0), at(1), at(1, 'two')]) await requireOwnPlace(places, input)
  await assert.rejects(requireOwnPlace(places, at(0, 'three')), refused(/its plan has no task three/))

  await assert.rejects(requireOwnPlace(places, at(2)), refused(/its group of 2 has lost 0, and this one is number 3/))
  const ended = (index: number, verdict: string) =>
    putPart(store, episodeKeys.result(episodeId(at(index))), { disposition: 'submitted', verdict })
  await ended(0, 'resolved')
  await assert.rejects(requireOwnPlace(places, at(2)), refused(/has lost 0/))
  await ended(1, 'could-not-grade')
  await requireOwnPlace(places, at(2))
  await assert.rejects(requireOwnPlace(places, at(3)), refused(/has lost 1, and this one is number 4/))
  // At the paper's size a plan names thousands of tasks, each with ten episodes.
  assert.equal(asked.filter((key) => key === runKeys.plan(run, stage, 6)).length, 1)
})
