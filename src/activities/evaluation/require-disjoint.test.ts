import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { loadTasks } from '../../adapters/datasets/load-tasks.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, type LonghaulError } from '../../contracts/errors.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'
import { gateKeys, runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { OverlapRecord, SuiteOrigin } from '../../contracts/suites.types.ts'
import type { SuiteManifest, SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { storeSuite } from './suite-origin.ts'
import { createSuiteReader, readOrThrow } from '../runtime/stored-records.ts'
import { planIteration } from '../run/plan-iteration.ts'
import { requireDisjoint } from './require-disjoint.ts'
import type { IterationPlan } from '../../contracts/run-records.types.ts'

let store: ArtifactStore
let close: () => Promise<void>
let tasks: Task[]

before(async () => {
  ;({ store, close } = await useOwnStore())
  tasks = await loadTasks({ kind: 'synthetic', family: 'one-wrong-line', seed: 1, split: 'train', count: 6, offset: 0 })
})

after(() => close())

async function suiteOf(name: string, chosen: readonly Task[]): Promise<SuiteManifest> {
  const source: SuiteSource = { kind: 'rows', path: `${name}.jsonl`, limit: null }
  const origin: SuiteOrigin = {
    schema: 'longhaul.suite-origin/1',
    dataset: name,
    revision: null,
    split: null,
    files: [],
    filters: [],
  }
  return storeSuite(store, { name, source, tasks: chosen, origin })
}

function recipe(overlap: 'fail' | 'exclude'): Recipe {
  const made = makeTrainingRecipe()
  return { ...made, data: { ...made.data, overlap }, rollout: { ...made.rollout, maxOpenEpisodes: 4 } }
}

function prove(run: string, train: SuiteManifest, evaluated: SuiteManifest[], overlap: 'fail' | 'exclude' = 'fail') {
  const deps = { store, suites: createSuiteReader(store), recipe: recipe(overlap) }
  return requireDisjoint(deps, { run, train: train.hash, evaluated: evaluated.map(({ hash }) => hash) })
}

async function refusal(work: Promise<unknown>): Promise<LonghaulError> {
  const error: unknown = await work.then(
    () => null,
    (thrown: unknown) => thrown,
  )
  assert.ok(isLonghaulError(error), String(error))
  return error
}

test('suites without a shared task are proven disjoint, and the record names what was compared', async () => {
  const train = await suiteOf('train', tasks.slice(0, 3))
  const heldOut = await suiteOf('held-out', tasks.slice(3))
  assert.deepEqual(await prove('disjoint', train, [heldOut]), { overlapping: 0 })
  const record = await readOrThrow<OverlapRecord>(store, runKeys.overlap('disjoint'))
  assert.deepEqual([record.tasks, record.evaluated, record.overlaps], [3, [heldOut.hash], []])
  // A run that is started again proves the same and finds its own record.
  assert.deepEqual(await prove('disjoint', train, [heldOut]), { overlapping: 0 })
})

test('refuses a run when an additional suite holds a training task under another id, and names both', async () => {
  const [first] = tasks
  assert.ok(first)
  const train = await suiteOf('train', tasks.slice(0, 3))
  const clean = await suiteOf('held-out', tasks.slice(3))
  const renamed = await suiteOf('may', [{ ...first, taskId: 'renamed__task-9', statement: 'Told in other words.' }])
  const error = await refusal(prove('further', train, [clean, renamed]))
  assert.equal(error.code, 'Suite.Overlap')
  assert.match(error.message, /1 of 3 of train are: synthetic__train-000000 is renamed__task-9 of may/)
  assert.match(error.message, /same repository and base commit.*data\.overlap to exclude/s)
})

test('names ten shared tasks and counts the rest, and the record has all', async () => {
  const copies = await suiteOf(
    'copies',
    tasks.slice(0, 4).flatMap((task) => ['x', 'y', 'z'].map((copy) => ({ ...task, taskId: `${task.taskId}-${copy}` }))),
  )
  const train = await suiteOf('train-all', tasks)
  const error = await refusal(prove('many', train, [copies]))
  assert.match(error.message, /4 of 6 of train-all/)
  assert.match(error.message, /; and 2 more\./)
  const { overlaps, excluded } = await readOrThrow<OverlapRecord>(store, runKeys.overlap('many'))
  assert.deepEqual([overlaps.length, excluded], [12, []])
})

test('overlap: exclude never trains on a shared task, evaluates it, and refuses an empty training suite', async () => {
  const train = await suiteOf('train', tasks.slice(0, 3))
  const heldOut = await suiteOf('both', tasks.slice(1, 3))
  assert.deepEqual(await prove('excluded', train, [heldOut], 'exclude'), { overlapping: 2 })
  const planned = async (suite: SuiteManifest, stage: string) => {
    const gated: GatedSuite = {
      schema: 'longhaul.gated-suite/2',
      suite: suite.hash,
      repeats: 1,
      admitted: suite.taskIds,
      refused: [],
      digests: {},
    }
    await store.putRecord(gateKeys.gated('excluded', suite.hash), gated)
    const place = { run: 'excluded', stage, iteration: 1, suite: suite.hash }
    const { plan } = await planIteration({ store, recipe: recipe('exclude') }, place)
    return (await readOrThrow<IterationPlan>(store, plan.key)).taskIds
  }
  assert.deepEqual(await planned(train, 'rft'), ['synthetic__train-000000'])
  assert.deepEqual(await planned(train, 'dapo-1'), ['synthetic__train-000000'])
  assert.deepEqual((await planned(heldOut, 'eval-base')).toSorted(), heldOut.taskIds.toSorted())

  const all = await suiteOf('all', tasks)
  const error = await refusal(prove('nothing-left', train, [all], 'exclude'))
  assert.match(error.message, /3 of 3 of train are.*No training task would be left/s)
})
