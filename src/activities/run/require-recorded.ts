/**
 * What a workflow holds is compared with the run's records where it would become a trained weight, or a score of one: a person can
 * complete any activity by hand with a result that looks right.
 */
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import type { Coordinates } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { OverlapRecord } from '../../contracts/suites.types.ts'
import type { TrainedIteration } from '../../contracts/workflows.types.ts'
import { finishedTraining } from './recall-run.ts'
import type { RunClaim } from '../../contracts/run-records.types.ts'

/**
 * Of an iteration or evaluation of a training run that is about to be played with a policy.
 * @param after the iteration that is said to have trained it
 * @throws LonghaulError `Artifact.Missing` if that iteration, or the one before, has not trained; `Run.EndedByHand` if the policy is not one of the run
 */
export async function requireOwnPolicy(
  { store, recipe }: { store: ArtifactStore; recipe: Pick<Recipe, 'reinforce'> },
  { run, stage, iteration, policy, after }: Coordinates & { policy: string; after?: TrainedIteration },
): Promise<void> {
  const claim = await store.readRecord<RunClaim>(runKeys.claim(run))
  const base = await store.readRecord<PolicyRef>(runKeys.policy(run, 'base'))
  // Other runs train nothing, and those of earlier versions have no such record.
  if (claim?.kind !== 'train' || base === null) return
  const purpose = purposeOf(stage)
  const own = purpose.kind === 'reinforce' && iteration > 1 ? { stage, iteration: iteration - 1 } : null
  const before = after ?? own
  if (before !== null) {
    const trained = await finishedTraining(store, { run, ...before })
    if (trained === null) throw untrained({ run, ...before })
    if (trained.policy?.version === policy) return
    // Only an iteration without a batch leaves the policy as it was.
    if (after !== undefined && trained.policy !== null) {
      const what = `Expected the policy of ${stage} to be ${trained.policy.version}, which iteration ${after.iteration} of ${after.stage} has trained`
      throw byHand(`${what}, got ${policy}`, run)
    }
  }
  if (policy === base.version || (await isTrainedBy(store, recipe, { run, policy }))) return
  throw byHand(`Expected the policy of ${stage} to be one that run ${run} has trained, got ${policy}`, run)
}

async function isTrainedBy(
  store: ArtifactStore,
  { reinforce }: Pick<Recipe, 'reinforce'>,
  { run, policy }: { run: string; policy: string },
): Promise<boolean> {
  const isOf = async (stage: string, iteration: number): Promise<boolean> =>
    (await finishedTraining(store, { run, stage, iteration }))?.policy?.version === policy
  if (await isOf('rft', 0)) return true
  for (const { name, until } of reinforce?.stages ?? []) {
    for (let iteration = 1; iteration <= until.maxIterations; iteration++) {
      if ((await store.readRecord(runKeys.plan(run, name, iteration))) === null) break
      if (await isOf(name, iteration)) return true
    }
  }
  return false
}

/**
 * Of a run that has proven which suites it trains on and which it evaluates.
 * @throws LonghaulError `Run.EndedByHand` if it lacks the proof, or if the suite is another one
 */
export async function requireOwnSuite(
  store: ArtifactStore,
  { run, stage, suite }: { run: string; stage: string; suite: string },
): Promise<void> {
  const key = runKeys.overlap(run)
  const proof = await store.readRecord<OverlapRecord>(key)
  if (proof === null) throw byHand('Expected the record that no training task is evaluated', key)
  const purpose = purposeOf(stage)
  const [heldOut] = proof.evaluated
  const expected = purpose.kind !== 'evaluation' ? [proof.train] : purpose.suite === null ? [heldOut] : proof.evaluated
  if (!expected.includes(suite))
    throw byHand(`Expected the suite of ${stage} to be ${expected.join(' or ')}, got ${suite}`, key)
}

/**
 * Of a training job that continues the one before it.
 * @throws LonghaulError `Artifact.Missing` if that job has no record; `Run.EndedByHand` if it made another policy
 */
export async function requireJobBefore(
  store: ArtifactStore,
  { run, stage, iteration, slice, policy }: Coordinates & { slice: number; policy: { version: string } },
): Promise<void> {
  if (slice === 0) return
  const key = runKeys.training(run, stage, iteration, slice - 1)
  const before = await store.readRecord<{ policy: string }>(key)
  if (before === null) throw untrained({ run, stage, iteration }, slice - 1)
  if (before.policy === policy.version) return
  throw byHand(`Expected job ${slice} of ${stage} to continue ${before.policy}, got ${policy.version}`, key)
}

/** @throws LonghaulError `Run.EndedByHand` if the batch of a training job was written for other work */
export function requireOwnBatch({
  run,
  stage,
  iteration,
  slice,
  batch,
}: Coordinates & { slice: number; batch: ArtifactRef }): void {
  const own = `${runKeys.batch(run, stage, iteration, slice)}/`
  if (batch.key.startsWith(own)) return
  throw byHand(`Expected the batch of a training job below ${own}, got ${batch.key}`, own)
}

function untrained({ run, stage, iteration }: Coordinates, slice = 0): LonghaulError {
  const key = runKeys.training(run, stage, iteration, slice)
  return new LonghaulError({
    code: 'Artifact.Missing',
    message: `Iteration ${iteration} of ${stage} is over, and its records say that it has not trained: an activity was completed by hand, or the records are older than the run. ${AGAIN}`,
    details: { key },
  })
}

function byHand(what: string, key: string): LonghaulError {
  return new LonghaulError({
    code: 'Run.EndedByHand',
    message: `${what}: an activity was completed by hand. ${AGAIN}`,
    details: { key },
  })
}

const AGAIN = 'Start the run again under its name, and it continues from its records'
