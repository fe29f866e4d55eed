import type { TrainingJobInput } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys, policyKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TrainingAlarm, TrainingRecord } from '../../contracts/training.types.ts'
import { type FindAlarmsInput, findAlarms, findDivergence, formatAlarms } from '../../domain/rewards/training-alarms.ts'
import { readAttemptTimes } from '../../adapters/trainer-job/job/attempt-files.ts'
import type { PreparedJob } from '../../adapters/trainer-job/job/job-spec.ts'
import type { JobTimeRecord, LineageRecord } from '../../contracts/costs.types.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'

/** The result of a training job without its duration, so it is equal for the same job. */
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
  // Present only for steps with a KL, with experts or with pairs.
  'kl_reference',
  'expert_tokens',
  'expert_nll',
  'pairs',
  'pair_accuracy',
  'chosen_reward',
  'rejected_reward',
]

function figuresOf(step: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(FIGURES.filter((name) => name in step).map((name) => [name, step[name]]))
}

/**
 * Stores a job's measurements with its run. @returns why the run should be paused, or null
 * @throws LonghaulError `Trainer.Diverged` if sampler and trainer are no longer the same model; the policy must not be used
 */
export async function recordTraining({
  store,
  recipe,
  job,
  policy,
  metrics,
}: {
  store: ArtifactStore
  recipe: Recipe
  job: TrainingJobInput
  policy: string
  metrics: Record<string, unknown>[]
}): Promise<string | null> {
  const { run, stage, iteration, slice } = job
  // Recipes stored by an older version have no alarms.
  const limits = recipe.trainer.alarms as Recipe['trainer']['alarms'] | undefined
  const found: FindAlarmsInput | null =
    limits === undefined
      ? null
      : {
          steps: metrics,
          limits,
          kind: job.kind,
          firstEntropy: typeof limits.entropyShare === 'number' ? await firstEntropy(store, job, metrics) : null,
        }
  const alarms = found === null ? [] : findAlarms(found)
  const record: TrainingRecord = {
    schema: 'longhaul.training/1',
    stage,
    iteration,
    slice,
    policy,
    steps: metrics.map(figuresOf),
    alarms,
  }
  // The file of a committed job never changes, so a repeated attempt writes the same bytes.
  await store.putRecord(runKeys.training(run, stage, iteration, slice), record)
  const divergence = found === null ? null : findDivergence(found)
  if (divergence !== null) throw diverged(divergence, policy)
  return alarms.length > 0 && limits?.onAlarm === 'pause' ? formatAlarms(alarms) : null
}

/** Of the first job of the stage that trained anything, because iterations of equal groups train nothing and leave no record. */
async function firstEntropy(
  store: ArtifactStore,
  { run, stage, kind, iteration, slice }: TrainingJobInput,
  metrics: readonly Record<string, unknown>[],
): Promise<number | null> {
  const earlier =
    kind === 'rft'
      ? Array.from({ length: slice }, (_, at) => runKeys.training(run, stage, iteration, at))
      : Array.from({ length: iteration }, (_, at) => runKeys.training(run, stage, at, 0))
  for (const key of earlier) {
    const record = await store.readRecord<TrainingRecord>(key)
    if (record !== null) return entropyOf(record.steps)
  }
  return entropyOf(metrics)
}

function entropyOf(steps: readonly Record<string, unknown>[]): number | null {
  const found = steps[0]?.['entropy']
  return typeof found === 'number' && Number.isFinite(found) ? found : null
}

function diverged(alarm: TrainingAlarm, policy: string): LonghaulError {
  return new LonghaulError({
    code: 'Trainer.Diverged',
    message:
      `Expected sampler and trainer to be the same model: ${formatAlarms([alarm])} (trainer.alarms.divergedKl). The policy of this job is ` +
      'not published. Check that the policy server serves the policy unchanged: longhaul policy-server check',
    details: { policy, metric: alarm.metric, step: alarm.step },
  })
}

interface EndedJob {
  store: ArtifactStore
  input: TrainingJobInput
  job: Pick<PreparedJob, 'key' | 'jobDirectory' | 'layout'>
  trained: PolicyRef
}

/**
 * Stores how long a job's attempts took, and what its policy was made from. The first record of each counts, so a repeated attempt adds
 * none. If another host ran the job, its times are not available here, and no record is written.
 */
export async function recordJob({ store, input, job, trained }: EndedJob): Promise<void> {
  const { run, stage, iteration, slice, policy: parent, batch } = input
  const attempts = await readAttemptTimes(job.jobDirectory)
  if (attempts.length > 0) {
    const { device, nodes, ranksPerNode } = job.layout
    await store.claimRecord<JobTimeRecord>(runKeys.jobTime(run, stage, iteration, slice), {
      schema: 'longhaul.job-time/1',
      stage,
      iteration,
      slice,
      device,
      ranks: nodes * ranksPerNode,
      attempts,
    })
  }
  await store.claimRecord<LineageRecord>(policyKeys.lineage(trained.version), {
    schema: 'longhaul.lineage/1',
    policy: hashOf(trained),
    parent: hashOf(parent),
    by: { run, stage, iteration, slice },
    jobKey: job.key,
    batchSha256: batch.sha256,
  })
}

function hashOf({ version, manifestSha256 }: PolicyRef): LineageRecord['policy'] {
  return { version, manifestSha256 }
}
