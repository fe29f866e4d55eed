/** Whole training jobs with a tiny policy, prepared like the pipeline's. */
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { type BatchRow, writeBatch } from '../../src/adapters/trainer-job/batch/batch-writer.ts'
import { claimFence } from '../../src/adapters/trainer-job/job/attempt-files.ts'
import { type PreparedJob, prepareJob } from '../../src/adapters/trainer-job/job/job-spec.ts'
import { importBasePolicy } from '../../src/adapters/trainer-job/job/policy-directory.ts'
import { readPolicyFacts } from '../../src/adapters/trainer-job/job/policy-facts.ts'
import type { Launcher } from '../../src/adapters/trainer-job/launchers/launcher.types.ts'
import { assembleTrajectory } from '../../src/adapters/trainer-job/batch/trajectory.ts'
import type { TrainingJobInput } from '../../src/contracts/activities.types.ts'
import type { ArtifactRef, ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import type { PolicyRef } from '../../src/contracts/policy.types.ts'
import type { TrainerRecipe } from '../../src/contracts/recipe.types.ts'
import { NEUTRAL_SAMPLING } from '../../src/contracts/neutral-sampling.ts'
import { groupAdvantages } from '../../src/domain/rewards/group-selection.ts'
import { splitIntoMinibatches } from '../../src/domain/rewards/minibatches.ts'
import { writeTinyPolicy } from './python.ts'
import { makeEpisode, makeTrainingRecipe } from './training-records.ts'

export interface JobRequest {
  store: ArtifactStore
  policy: PolicyRef
  run: string
  /** @default 'rft' */
  kind?: 'rft' | 'dapo'
  iteration?: number
  /** Trained in batches of two, twice. @default 4 */
  trajectories?: number
  learningRate?: number
  trainer?: Partial<TrainerRecipe>
}

/** Trajectories, and so optimizer steps, of a job that still runs when a test strikes after its first step. */
export const LONG_JOB = 160

/** A store below `root` with a random tiny policy. */
export async function makeJobStore(root: string): Promise<{ store: ArtifactStore; base: PolicyRef }> {
  const store = createDirectoryStore({ root: `${root}/store` })
  await writeTinyPolicy(`${root}/base`, 0)
  return { store, base: await importBasePolicy({ store, directory: `${root}/base` }) }
}

/** Writes a batch for a recipe like `makeTrainingRecipe`'s; the stage is `rft` or `dapo-1`. Log-probabilities of `dapo-1` are
 *  invented. */
export async function writeTestBatch(request: JobRequest): Promise<ArtifactRef> {
  const { store, run, kind = 'rft', policy, iteration = 1, trajectories: count = 4 } = request
  const stage = stageOf(kind)
  const rewards = Array.from({ length: count }, (_, index) => 1 - index / 4)
  const advantages = groupAdvantages({ rewards, delta: 1e-6 })
  const rows = rewards.map((_reward, index): BatchRow => {
    const { record, actions } = makeEpisode({ run, stage, iteration, index, policy: policy.version })
    const trajectory = assembleTrajectory({ record, actions, trainFormatErrors: true })
    return { trajectory, group: 't', member: index, advantage: kind === 'rft' ? null : (advantages[index] ?? 0) }
  })
  const minibatches = splitIntoMinibatches({ trajectories: rows.length, batch: 2 })
  return writeBatch({
    store,
    directory: runKeys.batch(run, stage, iteration, 0),
    kind,
    run,
    iteration,
    rows: kind === 'rft' ? rows : rows.filter(({ advantage }) => advantage !== 0),
    minibatches,
    groups: [{ id: 't', taskId: 't', rewards, outcomes: rewards.map(() => 0), infra: 0, dropped: null }],
    policies: [{ version: policy.version, manifestSha256: policy.manifestSha256 }],
    ...(await readPolicyFacts(policy)),
    maxRowTokens: 256,
    sampling: NEUTRAL_SAMPLING,
    totalSteps: minibatches.length * 2,
    advantage: kind === 'rft' ? null : { delta: 1e-6, filter: 'shaped' },
  })
}

export async function prepareTestJob(request: JobRequest): Promise<PreparedJob> {
  const { store, run, kind = 'rft', policy, iteration = 1 } = request
  const recipe = structuredClone(makeTrainingRecipe())
  if (recipe.rft !== null && request.learningRate !== undefined) recipe.rft.optim.lr = request.learningRate
  Object.assign(recipe.trainer, request.trainer)
  const batch = await writeTestBatch(request)
  const job: TrainingJobInput = { run, stage: stageOf(kind), kind, iteration, slice: 0, batch, policy }
  return prepareJob({ store, recipe, job, threads: 1 })
}

function stageOf(kind: 'rft' | 'dapo'): string {
  return kind === 'rft' ? 'rft' : 'dapo-1'
}

/** Starts the first attempt of a job, as the pipeline does. */
export async function launchFirst(job: PreparedJob, launcher: Launcher): Promise<void> {
  await claimFence({ jobDirectory: job.jobDirectory, fence: 1, spec: { ...job.spec, attempt: 1, fence: 1 } })
  await launcher.launch({ job, fence: 1 })
}
