import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { finishedTraining, isCollected, recallRun } from './recall-run.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

/** Two stages of three and two iterations. */
function recipe(evaluateEvery: number | null = null): Recipe {
  const made = makeTrainingRecipe()
  const [stage] = made.reinforce?.stages ?? []
  assert.ok(stage !== undefined && made.reinforce !== null)
  made.reinforce.evaluateEvery = evaluateEvery
  made.reinforce.stages = [
    { ...stage, until: { maxIterations: 3, plateau: null } },
    { ...stage, name: 'dapo-2', until: { maxIterations: 2, plateau: null } },
  ]
  return made
}

function recall(run: string, of = recipe()) {
  return recallRun({ store, recipe: of }, { run, kind: 'train' })
}

async function begun(run: string): Promise<void> {
  await putPart(store, runKeys.policy(run, 'base'), policyRef(0))
}

/** Leaves the records of an iteration that trained `jobs` jobs; the last one made the policy of that step. */
async function trained(
  run: string,
  stage: string,
  iteration: number,
  { jobs = 1, step }: { jobs?: number; step: number },
) {
  for (let slice = 0; slice < jobs; slice++) {
    const directory = runKeys.batch(run, stage, iteration, slice)
    await store.put(`${directory}/batch.json`, Buffer.from('{"trajectories":[]}'))
    const { version } = policyRef(step - jobs + slice + 1)
    await putPart(store, runKeys.training(run, stage, iteration, slice), {
      schema: 'longhaul.training/1',
      policy: version,
    })
  }
  if (jobs > 0) await putPart(store, policyKeys.ref(policyRef(step).version), policyRef(step))
  await ledgerOf(run, stage, iteration, jobs)
}

/** Leaves a ledger in which every job has trained on one episode. */
async function ledgerOf(run: string, stage: string, iteration: number, jobs: number): Promise<void> {
  const entries = Array.from({ length: jobs }, (_, slice) => ({
    episode: `${run}/${stage}/${iteration}/task/${slice}`,
    fate: 'trained',
    batch: `${runKeys.batch(run, stage, iteration, slice)}/batch.json`,
  }))
  const ledger = { schema: 'longhaul.ledger/1', run, stage, iteration, entries }
  await putPart(store, runKeys.ledger(run, stage, iteration), ledger)
}

async function evaluated(run: string, name: string): Promise<void> {
  await putPart(
    store,
    runKeys.evaluation(run, name),
    makeEvaluation({ run, name, tasks: [{ taskId: 't', attempts: [1] }] }),
  )
}

test('recalls nothing of a run without finished parts', async () => {
  assert.equal(await recall('fresh'), null)
})

test('recalls scores, fine-tuning, finished stages and finished iterations of a run that ended in its second stage', async () => {
  const run = 'amid'
  await begun(run)
  await evaluated(run, 'base')
  await trained(run, 'rft', 0, { jobs: 2, step: 2 })
  await evaluated(run, 'rft')
  for (const iteration of [1, 2, 3]) await trained(run, 'dapo-1', iteration, { step: 2 + iteration })
  await evaluated(run, 'dapo-1')
  await trained(run, 'dapo-2', 1, { step: 6 })
  const recalled = await recall(run)
  assert.deepEqual(
    recalled?.scores.map(({ name }) => name),
    ['base', 'rft', 'dapo-1'],
  )
  assert.equal(recalled?.rft?.version, policyRef(2).version)
  assert.deepEqual(
    recalled?.stages.map(({ name, policy, iteration, isDone }) => [name, policy.globalStep, iteration, isDone]),
    [
      ['dapo-1', 5, 4, true],
      ['dapo-2', 6, 2, false],
    ],
  )
})

test('an iteration that was collected but not trained, or trained but not stored, is unfinished', async () => {
  const run = 'half'
  const place = { run, stage: 'dapo-1', iteration: 1 }
  await begun(run)
  await trained(run, 'rft', 0, { jobs: 0, step: 0 })
  assert.equal(await isCollected(store, place), false)
  await store.put(`${runKeys.batch(run, 'dapo-1', 1, 0)}/batch.json`, Buffer.from('{"trajectories":[]}'))
  assert.equal(await isCollected(store, place), true)
  assert.equal(await finishedTraining(store, place), null)
  await ledgerOf(run, 'dapo-1', 1, 1)
  assert.equal(await finishedTraining(store, place), null)
  // A policy that has diverged leaves the record of its training and no reference.
  const { version } = policyRef(91)
  await putPart(store, runKeys.training(run, 'dapo-1', 1, 0), { schema: 'longhaul.training/1', policy: version })
  assert.equal(await finishedTraining(store, place), null)
  assert.deepEqual(await recall(run), { scores: [], rft: policyRef(0), stages: [] })
})

// The story: a person clears large files of an old run, or a bucket lists an older state. Without its batch an iteration looked as if it
// had trained nothing, and the run went on from the policy before it.
test('an iteration whose batch is gone, or not listed, keeps its policy: ledger and training tell that it has trained', async () => {
  const run = 'cleared'
  await begun(run)
  await trained(run, 'rft', 0, { jobs: 2, step: 2 })
  await trained(run, 'dapo-1', 1, { step: 3 })
  await store.removeFolder(`${runKeys.batch(run, 'dapo-1', 1, 0)}/`)
  await store.removeFolder(`${runKeys.batch(run, 'rft', 0, 1)}/`)
  assert.deepEqual(await finishedTraining(store, { run, stage: 'rft', iteration: 0 }), { policy: policyRef(2) })
  assert.deepEqual(await finishedTraining(store, { run, stage: 'dapo-1', iteration: 1 }), { policy: policyRef(3) })
  // A batch of experts alone holds no episode of its iteration.
  await trained(run, 'dapo-1', 2, { step: 4 })
  const unlisted = { ...store, list: async () => [] }
  const { entries: _, ...ledger } =
    (await store.readRecord<{ entries: object[] }>(runKeys.ledger(run, 'dapo-1', 2))) ?? {}
  const readRecord: typeof store.readRecord = async (key) =>
    key === runKeys.ledger(run, 'dapo-1', 2) ? ({ ...ledger, entries: [] } as never) : store.readRecord(key)
  assert.deepEqual(await finishedTraining({ ...unlisted, readRecord }, { run, stage: 'dapo-1', iteration: 2 }), {
    policy: policyRef(4),
  })
})

test('a stage continues with the earlier policy after an iteration that trained nothing', async () => {
  const run = 'empty'
  await begun(run)
  await trained(run, 'rft', 0, { step: 1 })
  await trained(run, 'dapo-1', 1, { step: 2 })
  await trained(run, 'dapo-1', 2, { jobs: 0, step: 0 })
  const [stage] = (await recall(run))?.stages ?? []
  assert.deepEqual([stage?.policy.globalStep, stage?.iteration, stage?.isDone], [2, 3, false])
})

test('a stage that a person stopped is over once its evaluation has started', async () => {
  const run = 'stopped'
  await begun(run)
  await trained(run, 'rft', 0, { step: 1 })
  await trained(run, 'dapo-1', 1, { step: 2 })
  await putPart(store, runKeys.plan(run, 'eval-dapo-1', 0), { schema: 'longhaul.plan/1' })
  const [stage] = (await recall(run))?.stages ?? []
  assert.deepEqual([stage?.iteration, stage?.isDone], [2, true])
})

test('a stage continues at a trained iteration whose evaluation is unfinished', async () => {
  const run = 'way'
  await begun(run)
  await trained(run, 'rft', 0, { step: 1 })
  await trained(run, 'dapo-1', 1, { step: 2 })
  await trained(run, 'dapo-1', 2, { step: 3 })
  const [stage] = (await recall(run, recipe(2)))?.stages ?? []
  assert.deepEqual([stage?.policy.globalStep, stage?.iteration, stage?.isDone], [3, 2, false])
  await evaluated(run, 'dapo-1-0002')
  const [later] = (await recall(run, recipe(2)))?.stages ?? []
  assert.deepEqual([later?.policy.globalStep, later?.iteration], [3, 3])
})

test('an evaluation started alone is recalled by its name, or as nightly from an earlier version', async () => {
  const scoresOf = async (run: string, evaluation?: string): Promise<string[]> => {
    const recalled = await recallRun({ store, recipe: recipe() }, { run, kind: 'eval', evaluation })
    return (recalled?.scores ?? []).map(({ name }) => name)
  }
  for (const name of ['mini', 'nightly']) {
    const record = makeEvaluation({ run: 'alone', name, tasks: [{ taskId: 'a', attempts: [1] }] })
    await putPart(store, runKeys.evaluation('alone', name), record)
  }
  assert.deepEqual(await scoresOf('alone', 'mini'), ['mini'])
  assert.deepEqual(await scoresOf('alone'), ['nightly'])
  assert.deepEqual(await scoresOf('alone', 'other'), [])
})
