import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { findPlateau, type IterationScore } from '../../domain/rewards/plateau.ts'
import { judgePlateau } from './judge-plateau.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

async function evaluated(name: string, resolved: number, run = 'r'): Promise<void> {
  const tasks = Array.from({ length: 10 }, (_, index) => ({
    taskId: `t${index}`,
    attempts: [index < resolved ? 1 : 0] as (0 | 1)[],
  }))
  await store.putRecord(runKeys.evaluation(run, name), makeEvaluation({ run, name, tasks }))
}

function recipe(): Recipe {
  const made = makeTrainingRecipe()
  const [stage] = made.reinforce?.stages ?? []
  assert.ok(stage !== undefined && made.reinforce !== null)
  const until = { maxIterations: 9, plateau: { metric: 'heldOut.pass1' as const, window: 2, minGain: 0.09 } }
  made.reinforce.stages = [
    { ...stage, until },
    { ...stage, name: 'dapo-2', until: { ...until, plateau: null } },
  ]
  return made
}

test('a stage continues while its evaluations improve and ends when they stop, and the finding is stored', async () => {
  const judge = (iteration: number, stage = 'dapo-1') =>
    judgePlateau({ store, recipe: recipe() }, { run: 'r', stage, iteration })
  await evaluated('rft', 2)
  await evaluated('dapo-1-0001', 2)
  assert.deepEqual(await judge(1), { plateau: false })
  await evaluated('dapo-1-0002', 4)
  // (2 + 4) / 2 against 2: +0.1 is not less than 0.09.
  assert.deepEqual(await judge(2), { plateau: false })
  await evaluated('dapo-1-0003', 5)
  await evaluated('dapo-1-0004', 3)
  // (5 + 3) / 2 against (2 + 4) / 2: +0.1 again.
  assert.deepEqual(await judge(4), { plateau: false })
  await evaluated('dapo-1-0005', 4)
  // (3 + 4) / 2 against (4 + 5) / 2: −0.1.
  assert.deepEqual(await judge(5), { plateau: true })
  assert.deepEqual(await judge(5, 'dapo-2'), { plateau: false })
  await evaluated('dapo-1-0006', 10)
  assert.deepEqual(await judge(5), { plateau: true })
})

test('resolved but unpaid attempts are no improvement', async () => {
  const run = 'deceived'
  await evaluated('rft', 4, run)
  for (const name of ['dapo-1-0001', 'dapo-1-0002']) await evaluated(name, 4, run)
  for (const [name, resolved] of [
    ['dapo-1-0003', 8],
    ['dapo-1-0004', 9],
  ] as const) {
    const tasks = Array.from({ length: 10 }, (_, index) => ({
      taskId: `t${index}`,
      attempts: [index < resolved ? 1 : 0] as (0 | 1)[],
    }))
    const record = makeEvaluation({ run, name, tasks })
    const audited = record.tasks.map((task, index) => ({ ...task, audited: [index < 4 ? 1 : 0] as (0 | 1)[] }))
    await store.putRecord(runKeys.evaluation(run, name), { ...record, tasks: audited })
  }
  assert.deepEqual(await judgePlateau({ store, recipe: recipe() }, { run, stage: 'dapo-1', iteration: 4 }), {
    plateau: true,
  })
})

test('both windows need an evaluation, and older ones do not count', () => {
  const find = (scores: IterationScore[], iteration: number) =>
    findPlateau({ scores, iteration, window: 10, minGain: 0.01 })
  const at = (iteration: number, passAt1: number): IterationScore => ({ iteration, passAt1 })
  assert.deepEqual(find([at(5, 0.5)], 5), { plateau: false, gain: null, last: 1, before: 0 })
  assert.equal(find([at(0, 0.5), at(5, 0.5)], 5).gain, null)
  assert.deepEqual(find([at(0, 0.5), at(5, 0.5), at(10, 0.5)], 10), { plateau: true, gain: 0, last: 2, before: 1 })
  // What is older than two windows says nothing.
  assert.equal(find([at(0, 0.9), at(15, 0.5), at(25, 0.75)], 25).gain, 0.25)
})

test('with quick tasks a plateau is judged on those only, also in the evaluation before the stage', async () => {
  const place = { run: 'quick', stage: 'dapo-1' }
  const keep = async (name: string, outcomes: (0 | 1)[]): Promise<void> => {
    const tasks = outcomes.map((outcome, index) => ({ taskId: `t${index}`, attempts: [outcome] }))
    await store.putRecord(runKeys.evaluation('quick', name), makeEvaluation({ run: 'quick', name, tasks }))
  }
  // All ten: 0.8, and none of the two quick ones. Inside the stage they alone are played.
  await keep('rft', [0, 0, 1, 1, 1, 1, 1, 1, 1, 1])
  await keep('dapo-1-0001', [0, 0])
  await keep('dapo-1-0002', [1, 0])
  const quick = recipe()
  quick.evaluate = { ...quick.evaluate, quick: ['t0', 't1'] }
  // (0 + 1/2) / 2 against 0: a gain of 0.25. Against 0.8 it would be a loss.
  assert.deepEqual(await judgePlateau({ store, recipe: quick }, { ...place, iteration: 2 }), { plateau: false })
})

test('the evaluation before a stage with other limits does not count for its plateau', async () => {
  const longer = recipe()
  longer.evaluate = { ...longer.evaluate, limits: { rft: { maxTurns: 9, context: 900 } } }
  for (const [run, staged, plateau] of [
    ['alike', recipe(), true],
    ['unlike', longer, false],
  ] as const) {
    await evaluated('rft', 9, run)
    await evaluated('dapo-1-0001', 5, run)
    await evaluated('dapo-1-0002', 6, run)
    const found = await judgePlateau({ store, recipe: staged }, { run, stage: 'dapo-1', iteration: 2 })
    assert.deepEqual(found, { plateau }, run)
  }
})
