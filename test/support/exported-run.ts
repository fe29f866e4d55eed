/** A stored training run with an evaluation, as workers would have written it, with every possible fate of an episode. */
import { buildEvaluationLedger, buildTrainingLedger, unpaidIn } from '../../src/domain/ledger/ledger.ts'
import { selectEpisodes } from '../../src/activities/training/build-batch.ts'
import { readEpisodeRecords } from '../../src/activities/episode/episode-records.ts'
import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../src/contracts/episodes.types.ts'
import { policyKeys, runKeys, suiteKeys } from '../../src/contracts/keys.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import { makeTrainingRecipe } from './training-records.ts'
import { type StoreEpisodeInput, storeEpisode, VIEWED_SUITE } from './viewed-run.ts'
import { putPart } from './record-examples.ts'

/** Hostile to spreadsheets, CSV readers and human eyes; keys contain no slash and no control character. */
export const HOSTILE_TASK = '=cmd|\' \'!A0,"x"; \u202eelif'
/** Other hostile text. */
export const HOSTILE_REASON = '=1+1\r\n"a",b\0\ud800\u001b[31mred'

type Audit = NonNullable<EpisodeRecord['audit']>
const PAID: Audit = { outcome: 'agrees', reasons: [], detail: null }
const VOID: Audit = { outcome: 'void', reasons: ['runner-changed'], detail: 'it changed\n=the runner' }

/** In the order of an export. */
const TRAINED: Partial<StoreEpisodeInput>[] = [
  { taskId: 'a', index: 0, verdict: 'resolved', audit: PAID, turns: 4 },
  { taskId: 'a', index: 1, turns: 6 },
  { taskId: 'a', index: 2, disposition: 'infra', verdict: null, failure: 'Sandbox.Lost', turns: 1 },
  { taskId: 'b', index: 0 },
  { taskId: 'b', index: 1 },
  { taskId: 'c', index: 0, verdict: 'could-not-grade', verdictReason: HOSTILE_REASON },
  { taskId: 'c', index: 1, verdict: 'resolved', audit: VOID },
  { taskId: 'c', index: 2, verdict: 'resolved', suspectedHack: true, signs: ['conftest'], audit: PAID },
]
const EVALUATED: Partial<StoreEpisodeInput>[] = [
  { taskId: HOSTILE_TASK, index: 0, verdict: 'resolved', audit: PAID },
  { taskId: 'd', index: 0, disposition: 'turn-limit', verdictReason: 'not-submitted' },
  { taskId: 'd', index: 1, disposition: 'infra', verdict: null, failure: 'Sandbox.Lost', turns: 0 },
]

/** Stage dapo-1 with one finished and one open iteration, and the evaluation `rl`. */
export async function storeExportedRun(store: ArtifactStore, run: string): Promise<void> {
  const recipe = { ...makeTrainingRecipe(), grading: { unauditedRewards: 'refuse' } } as Recipe
  await putPart(store, runKeys.claim(run), {
    schema: 'longhaul.run/1',
    run,
    kind: 'train',
    workflowId: `train/${run}`,
  })
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: 'cd'.repeat(32), recipe })
  await putPart(store, policyKeys.ref('v000000-aaaaaaaa'), {
    version: 'v000000-aaaaaaaa',
    manifestSha256: 'ab'.repeat(32),
  })
  await putPart(store, suiteKeys.row(VIEWED_SUITE, 'a'), { schema: 'longhaul.row/1', row: { license_name: 'MIT' } })
  for (const fields of TRAINED) await storeEpisode(store, { run, stage: 'dapo-1', iteration: 1, ...fields })
  await storePlan(store, { run, stage: 'dapo-1', iteration: 1 })
  await storeTrainingLedger(store, recipe, run)
  await storeEpisode(store, { run, stage: 'dapo-1', iteration: 2, taskId: 'a', index: 0, turns: 2, hasEnded: false })
  await storePlan(store, { run, stage: 'dapo-1', iteration: 2 })

  const evaluation = { run, stage: 'eval-rl', iteration: 0 }
  for (const fields of EVALUATED) await storeEpisode(store, { ...evaluation, ...fields })
  await storePlan(store, evaluation)
  const records = await readEpisodeRecords(store, evaluation)
  const unpaid = unpaidIn(records, recipe)
  await putPart(
    store,
    runKeys.ledger(run, 'eval-rl', 0),
    buildEvaluationLedger({ ...evaluation, records, evaluation: 'rl', unpaid }),
  )
}

type Place = Pick<EpisodeRecord, 'run' | 'stage' | 'iteration'>

function storePlan(store: ArtifactStore, { run, stage, iteration }: Place): Promise<unknown> {
  const taskIds = stage === 'eval-rl' ? [HOSTILE_TASK, 'd'] : iteration === 1 ? ['a', 'b', 'c'] : ['a']
  return putPart(store, runKeys.plan(run, stage, iteration), {
    schema: 'longhaul.plan/1',
    run,
    stage,
    iteration,
    suite: VIEWED_SUITE,
    groupSize: 3,
    taskIds,
  })
}

async function storeTrainingLedger(store: ArtifactStore, recipe: Recipe, run: string): Promise<void> {
  const place = { run, stage: 'dapo-1', iteration: 1 }
  const records = await readEpisodeRecords(store, place)
  const { fates } = selectEpisodes(recipe, place.stage, records)
  const key = `${runKeys.batch(run, place.stage, 1, 0)}/batch.json`
  const trained = fates.flatMap((fate) => (fate.kind === 'train' ? [fate.episode] : []))
  await store.put(key, Buffer.from(JSON.stringify({ policies: [], trajectories: trained.map((id) => ({ id })) })))
  const ledger = buildTrainingLedger({
    ...place,
    fates,
    batchOf: new Map(trained.map((episode) => [episode, key])),
    unpaid: unpaidIn(records, recipe),
  })
  await putPart(store, runKeys.ledger(run, place.stage, 1), ledger)
}
