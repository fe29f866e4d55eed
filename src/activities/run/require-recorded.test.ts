import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import { writeReport } from '../evaluation/write-report.ts'
import { requireJobBefore, requireOwnBatch, requireOwnPolicy, requireOwnSuite } from './require-recorded.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
  for (const step of [0, 1, 2, 3, 9]) await putPart(store, policyKeys.ref(policyRef(step).version), policyRef(step))
})

after(() => close())

/** A run whose rft trained policy 1, and whose stage trained `trained`; null is an iteration without a batch. */
async function begin(run: string, trained: readonly (number | null)[]): Promise<void> {
  await putPart(store, runKeys.claim(run), { schema: 'longhaul.run/1', run, kind: 'train' })
  await putPart(store, runKeys.policy(run, 'base'), policyRef(0))
  await iterate(run, 'rft', 0, 1)
  for (const [index, step] of trained.entries()) await iterate(run, 'dapo-1', index + 1, step)
}

async function iterate(run: string, stage: string, iteration: number, step: number | null): Promise<void> {
  await putPart(store, runKeys.plan(run, stage, iteration), { run, stage, iteration })
  const batch = `${runKeys.batch(run, stage, iteration, 0)}/batch.json`
  const entries = step === null ? [] : [{ episode: 'e', fate: 'trained', batch }]
  await putPart(store, runKeys.ledger(run, stage, iteration), { entries })
  if (step === null) return
  await putPart(store, runKeys.training(run, stage, iteration, 0), { policy: policyRef(step).version })
}

function ask(
  run: string,
  stage: string,
  iteration: number,
  step: number,
  after?: { stage: string; iteration: number },
): Promise<void> {
  const recipe = makeTrainingRecipe()
  const [first] = recipe.reinforce?.stages ?? []
  assert.ok(first && recipe.reinforce)
  recipe.reinforce.stages = [{ ...first, name: 'dapo-1', until: { ...first.until, maxIterations: 5 } }]
  return requireOwnPolicy(
    { store, recipe },
    {
      run,
      stage,
      iteration,
      policy: policyRef(step).version,
      ...(after === undefined ? {} : { after }),
    },
  )
}

test('what a run has trained may play: the base, what rft made, the iteration before, and the last one before an empty one', async () => {
  await begin('whole', [2, null, 3])
  await ask('whole', 'eval-base', 0, 0)
  await ask('whole', 'rft', 0, 0)
  await ask('whole', 'eval-rft', 0, 1)
  await ask('whole', 'dapo-1', 1, 1)
  await ask('whole', 'dapo-1', 2, 2)
  await ask('whole', 'dapo-1', 3, 2)
  await ask('whole', 'dapo-1', 4, 3)
  // A run that was cancelled in its fourth iteration, and then stopped after its third.
  await putPart(store, runKeys.plan('whole', 'dapo-1', 4), {})
  await ask('whole', 'eval-rl', 0, 3)
})

/** The story: somebody completes `runTrainingJob` or `buildBatch` by hand. Without a job there is no record of one. */
test('an invented policy plays nothing, and no iteration follows one that has not trained', async () => {
  await begin('invented', [2])
  for (const [stage, iteration] of [
    ['dapo-1', 2],
    ['eval-rl', 0],
    ['rft', 0],
  ] as const) {
    await assert.rejects(ask('invented', stage, iteration, 9), { code: 'Run.EndedByHand', message: /got v000009/ })
  }
  const untrained = { code: 'Artifact.Missing', message: /^Iteration 2 of dapo-1 is over, .* has not trained/ }
  await assert.rejects(ask('invented', 'dapo-1', 3, 2), untrained)
  await putPart(store, runKeys.ledger('invented', 'dapo-1', 2), {
    entries: [{ episode: 'e', fate: 'trained', batch: 'b' }],
  })
  await assert.rejects(ask('invented', 'dapo-1', 3, 2), untrained)
})

test('runs that train nothing, and those without a record of their base, play any policy', async () => {
  await putPart(store, runKeys.claim('night'), { schema: 'longhaul.run/1', run: 'night', kind: 'eval' })
  await putPart(store, runKeys.policy('night', 'base'), policyRef(0))
  await ask('night', 'eval-rl', 0, 9)
  await putPart(store, runKeys.claim('old'), { schema: 'longhaul.run/1', run: 'old', kind: 'train' })
  await ask('old', 'dapo-1', 3, 9)
})

test('a training job takes only the batch of its own iteration and slice', () => {
  const job = { run: 'r', stage: 'dapo-1', iteration: 2, slice: 0 }
  const batch = (iteration: number, slice: number) => ({
    key: `${runKeys.batch('r', 'dapo-1', iteration, slice)}/batch.json`,
    sha256: '',
    bytes: 1,
  })
  requireOwnBatch({ ...job, batch: batch(2, 0) })
  for (const other of [batch(1, 0), batch(2, 1), { ...batch(2, 0), key: 'episodes/x' }]) {
    assert.throws(() => requireOwnBatch({ ...job, batch: other }), { code: 'Run.EndedByHand' })
  }
})

// The story: the job of a stage's last iteration is completed by hand with the policy that it began with. That policy is one of the
// run, and no iteration follows that would ask for the records of this one.
test('an evaluation plays what the iteration before it has trained, and none follows one that has not', async () => {
  await begin('last', [2, null])
  await ask('last', 'eval-rft', 0, 1, { stage: 'rft', iteration: 0 })
  await ask('last', 'eval-dapo-1-0001', 0, 2, { stage: 'dapo-1', iteration: 1 })
  // Its second iteration had no batch, and left the policy as it was.
  await ask('last', 'eval-rl', 0, 2, { stage: 'dapo-1', iteration: 2 })
  const untrained = { code: 'Artifact.Missing', message: /^Iteration 3 of dapo-1 is over, .* has not trained/ }
  await assert.rejects(ask('last', 'eval-rl', 0, 2, { stage: 'dapo-1', iteration: 3 }), untrained)
  await assert.rejects(ask('last', 'eval-rft', 0, 0, { stage: 'rft', iteration: 0 }), {
    code: 'Run.EndedByHand',
    message: /^Expected the policy of eval-rft to be v000001-\w+, which iteration 0 of rft has trained, got v000000/,
  })
})

test('a job continues the one before it', async () => {
  await begin('slices', [])
  const job = { run: 'slices', stage: 'rft', iteration: 0 }
  await requireJobBefore(store, { ...job, slice: 0, policy: policyRef(0) })
  await requireJobBefore(store, { ...job, slice: 1, policy: policyRef(1) })
  await assert.rejects(requireJobBefore(store, { ...job, slice: 1, policy: policyRef(0) }), {
    code: 'Run.EndedByHand',
    message: /^Expected job 1 of rft to continue v000001/,
  })
  await assert.rejects(requireJobBefore(store, { ...job, slice: 2, policy: policyRef(1) }), {
    code: 'Artifact.Missing',
  })
})

// The story: `requireDisjoint` or `prepareSuite` is completed by hand, the latter with the training suite as the held-out one.
test('a run plays only the suites that it has compared', async () => {
  const ask = (run: string, stage: string, suite: string) => requireOwnSuite(store, { run, stage, suite })
  await putPart(store, runKeys.overlap('suites'), { train: 'a', evaluated: ['b', 'c'] })
  for (const [stage, suite] of [
    ['rft', 'a'],
    ['dapo-1', 'a'],
    ['eval-rl', 'b'],
    ['eval-rl.further', 'c'],
  ] as const) {
    await ask('suites', stage, suite)
  }
  for (const [stage, suite] of [
    ['eval-rl', 'a'],
    ['eval-rl', 'c'],
    ['eval-rl.further', 'a'],
    ['dapo-1', 'b'],
  ] as const) {
    await assert.rejects(ask('suites', stage, suite), { code: 'Run.EndedByHand', message: /^Expected the suite of / })
  }
  await assert.rejects(ask('without', 'dapo-1', 'a'), {
    code: 'Run.EndedByHand',
    message: /^Expected the record that no/,
  })
})

test('no report says that a policy was promoted or refused without the record of that decision', async () => {
  await begin('decided', [2])
  await assert.rejects(writeReport({ store }, { run: 'decided', durations: {}, promoted: true }), {
    code: 'Run.EndedByHand',
    message: /^Expected the record of the decision on promotion/,
  })
})
