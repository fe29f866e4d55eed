import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { finishedTraining } from '../run/recall-run.ts'

/**
 * Returns the KL reference policy of a job's loss from the run's records: its base, or the policy that reinforcement began with. Null
 * for jobs whose loss has no KL.
 * @throws LonghaulError `Artifact.Missing`
 */
export async function referencePolicy(
  { store, recipe }: { store: Pick<ArtifactStore, 'list' | 'readRecord'>; recipe: Recipe },
  { run, kind }: Pick<TrainingJobInput, 'run' | 'kind'>,
): Promise<PolicyRef | null> {
  const kl = recipe.reinforce?.loss.kl ?? 0
  if (kind !== 'dapo' || kl === 0) return null
  const base = await store.readRecord<PolicyRef>(runKeys.policy(run, 'base'))
  const isTuned = kl.reference === 'start' && recipe.rft !== null
  const tuned = isTuned ? await finishedTraining(store, { run, stage: 'rft', iteration: 0 }) : null
  // Fine-tuning without a batch ends with its initial policy.
  const found = tuned?.policy ?? base
  if (found !== null && (!isTuned || tuned !== null)) return found
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected the run’s record of the policy that reinforce.loss.kl names',
    details: { run, reference: kl.reference },
  })
}
