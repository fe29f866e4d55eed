/** The story: the artifact store is replaced by an older copy while the server knows that all episodes have ended. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { requireWholeGroups } from './require-whole-groups.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-groups-'))
after(() => rmSync(root, { recursive: true }))
const store = createDirectoryStore({ root })
const made = makeTrainingRecipe()
const recipe = {
  ...made,
  rollout: { maxReplacements: 1, maxOpenEpisodes: 4 },
  reinforce: { ...made.reinforce, groupSize: 2 },
} as Recipe
const [LOST, GRADED, CANCELLED] = ['could-not-grade', 'unresolved', 'cancelled'] as const
let runs = 0

/** Each task's verdicts by index; null has no record. */
async function play(
  tasks: Record<string, (typeof LOST | typeof GRADED | typeof CANCELLED | null)[]>,
  refills: Record<string, (typeof GRADED)[]>[] = [],
): Promise<{ run: string; stage: string; iteration: number }> {
  const place = { run: `run-${++runs}`, stage: 'dapo-1', iteration: 1 }
  const plan = (taskIds: string[]): object => ({
    schema: 'longhaul.plan/1',
    ...place,
    suite: 's',
    groupSize: 2,
    taskIds,
  })
  await putPart(store, runKeys.plan(place.run, place.stage, 1), plan(Object.keys(tasks)))
  for (const [index, refill] of refills.entries()) {
    await putPart(store, runKeys.refill(place.run, place.stage, 1, index + 1), plan(Object.keys(refill)))
  }
  for (const [taskId, verdicts] of Object.entries(Object.assign({}, tasks, ...refills) as typeof tasks)) {
    for (const [index, verdict] of verdicts.entries()) {
      if (verdict === null) continue
      const ending = verdict === CANCELLED ? ({ disposition: verdict, verdict: null } as const) : { verdict }
      const record = makeRecord({ ...place, taskId, index, ...ending })
      await putPart(store, episodeKeys.result(record.episode), record)
    }
  }
  return place
}

const missing = { code: 'Artifact.Missing' }

test('a group is whole with all of its graded episodes, or once its replacements are used up', async () => {
  await requireWholeGroups(
    { store, recipe },
    await play({
      a: [GRADED, GRADED],
      b: [GRADED, LOST, GRADED],
      c: [GRADED, LOST, LOST],
      d: [LOST, LOST, LOST, LOST],
    }),
  )
})

test('a group without some record of its episodes is refused, whatever became of that episode', async () => {
  for (const b of [[], [GRADED], [null, GRADED], [GRADED, null, GRADED], [GRADED, LOST]]) {
    const place = await play({ a: [GRADED, GRADED], b })
    await assert.rejects(requireWholeGroups({ store, recipe }, place), missing, JSON.stringify(b))
  }
})

// The story: a run was stopped and started again twice, each time with its episodes open, and the record of a graded one disappears later.
test('episodes that ends of the run have cancelled use up no replacement, so they do not hide that one is missing', async () => {
  const cancelled = [CANCELLED, CANCELLED, CANCELLED]
  await requireWholeGroups({ store, recipe }, await play({ a: [...cancelled, GRADED, GRADED] }))
  await requireWholeGroups({ store, recipe }, await play({ a: [...cancelled, GRADED, LOST, LOST] }))
  for (const left of [[GRADED], [GRADED, LOST], []]) {
    const place = await play({ a: [...cancelled, ...left] })
    await assert.rejects(requireWholeGroups({ store, recipe }, place), missing, JSON.stringify(left))
  }
})

test('an iteration that has lost its plan is refused', async () => {
  const place = await play({ a: [GRADED, GRADED] })
  rmSync(store.path(runKeys.plan(place.run, place.stage, 1)))
  await assert.rejects(requireWholeGroups({ store, recipe }, place), missing)
})

test('refill rounds are required too, but not before they are played', async () => {
  await requireWholeGroups(
    { store, recipe },
    await play({ a: [GRADED, GRADED] }, [{ b: [GRADED, GRADED] }, { c: [GRADED, GRADED] }]),
  )
  const place = await play({ a: [GRADED, GRADED] }, [{ b: [GRADED, GRADED] }, { c: [] }])
  await requireWholeGroups({ store, recipe }, { ...place, round: 2 })
  await assert.rejects(requireWholeGroups({ store, recipe }, place), missing)
})
