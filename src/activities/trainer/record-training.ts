import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { TrainingRecord } from '../../contracts/training.types.ts'
import { findAlarms, sayAlarms } from '../../domain/mismatch-alarms.ts'

/** What training did, not how long it took: the same again for the same job. */
const FIGURES = [
  'global_step',
  'loss',
  'grad_norm',
  'n_tokens',
  'rows',
  'lr',
  'entropy',
  'k1',
  'k3',
  'abs_dlogp_max',
  'abs_dlogp_p99',
  'is_mean',
  'is_std',
  'is_max',
  'ess',
  'chi2',
  'clip_low',
  'clip_high',
  'dual_clip',
  'tis_capped',
  'masked_frac',
]

function figuresOf(step: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(FIGURES.filter((name) => name in step).map((name) => [name, step[name]]))
}

/** Keeps what a job measured with its run. @returns why the run is to be held, or null */
export async function recordTraining({
  store,
  recipe,
  job: { run, stage, iteration, slice },
  policy,
  metrics,
}: {
  store: ArtifactStore
  recipe: Recipe
  job: TrainingJobInput
  policy: string
  metrics: Record<string, unknown>[]
}): Promise<string | null> {
  // Recipes stored by an older version know no alarms.
  const limits = recipe.trainer.alarms as Recipe['trainer']['alarms'] | undefined
  const alarms = limits === undefined ? [] : findAlarms(metrics, limits)
  const record: TrainingRecord = {
    schema: 'longhaul.training/1',
    stage,
    iteration,
    slice,
    policy,
    steps: metrics.map(figuresOf),
    alarms,
  }
  // The file of a committed job never changes: a repeated attempt writes the same bytes.
  await store.putRecord(runKeys.training(run, stage, iteration, slice), record)
  return alarms.length > 0 && limits?.onAlarm === 'pause' ? sayAlarms(alarms) : null
}
