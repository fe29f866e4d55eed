import { dirname } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { TrainingJobInput } from '../../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import { policyKeys, runKeys } from '../../../contracts/keys.ts'
import type { PolicyRef } from '../../../contracts/policy.types.ts'
import type { Recipe, TrainerRecipe } from '../../../contracts/recipe.types.ts'
import { JOB_PLAN } from '../batch/batch-writer.ts'
import { jobConfig, reinforceStage } from './job-config.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import type { JobPlanRecord } from '../../../contracts/training.types.ts'

/** A job for a launcher: everything except attempt and fence, which each launch adds. */
export interface LaunchedJob {
  /** SHA-256 over the hashes of the inputs, which identifies the job. */
  key: string
  jobId: string
  /** spec.json without `attempt` and `fence`. */
  spec: Record<string, unknown>
  jobDirectory: string
  /** Directory that contains everything the job reads and writes. */
  artifactRoot: string
  layout: { nodes: number; ranksPerNode: number; device: 'cpu' | 'cuda' }
  limits: { timeoutMs: number; stallMs: number; graceMs: number }
}

/** A training job. */
export interface PreparedJob extends LaunchedJob {
  checkpoint: { directory: string; uri: string }
  policy: { directory: string; uri: string; version: string }
  /** Optimizer steps before this job, and the steps that this job adds. */
  globalStep: number
  steps: number
}

export interface PrepareJobInput {
  store: ArtifactStore
  recipe: Recipe
  job: TrainingJobInput
  /** Number of CPU threads of the trainer. @default the trainer's own choice */
  threads?: number
  /** The KL reference policy; required if the recipe has one. @default null */
  reference?: PolicyRef | null
}

/** Time to save an inner checkpoint after SIGTERM, before the process group is killed. */
const GRACE_S = 30

/**
 * Stores config.json in the job's directory and describes the job. Idempotent: the same recipe, batch and policy give the same key,
 * directory and version.
 * @throws LonghaulError `Config.Invalid`, `Artifact.*`
 */
export async function prepareJob({
  store,
  recipe,
  job,
  threads,
  reference = null,
}: PrepareJobInput): Promise<PreparedJob> {
  const { run, stage, kind, iteration, slice, batch, policy } = job
  const minibatches = await countMinibatches(store, job)
  const directory = runKeys.job(run, stage, iteration, slice)
  const totalSteps = await readTotalSteps(store, batch.key)
  const referenceSha256 = reference?.manifestSha256 ?? null
  const fields = { recipe, kind, stage, optimizerInit: optimizerInit(recipe, job), totalSteps, referenceSha256 }
  const config = Buffer.from(`${JSON.stringify(jobConfig(fields))}\n`)
  const configRef = await store.put(`${directory}/config.json`, config)
  await store.weights.bringFile(configRef)
  const input = jobInput(store.weights.local(policy))
  const key = jobKey({ input: input.manifest_sha256, batch: batch.sha256, config: configRef.sha256 })
  const jobId = `${kind}-${key.slice(0, 16)}`
  const steps = minibatches * epochsOf(recipe, kind)
  const version = `v${String(policy.globalStep + steps).padStart(6, '0')}-${key.slice(0, 8)}`
  const jobDirectory = store.path(directory)
  const placeAt = (key: string) => ({ directory: store.path(key), uri: pathToFileURL(store.path(key)).href })
  const [checkpoint, exported] = [placeAt(policyKeys.checkpoint(version)), placeAt(policyKeys.directory(version))]
  return {
    key,
    jobId,
    jobDirectory,
    artifactRoot: dirname(store.path('runs')),
    ...placeOf(recipe.trainer),
    checkpoint,
    policy: { ...exported, version },
    globalStep: policy.globalStep,
    steps,
    spec: {
      schema: 'longhaul.step/1',
      job_id: jobId,
      key,
      stage: kind,
      run: { id: run, iteration, global_step: policy.globalStep },
      input,
      batch: { uri: placeAt(directoryOf(batch.key)).uri, manifest_sha256: batch.sha256 },
      config: { uri: placeAt(configRef.key).uri, sha256: configRef.sha256 },
      ...(reference === null ? {} : { reference: referenceDirectory(store.weights.local(reference)) }),
      output: {
        checkpoint_uri: checkpoint.uri,
        policy_uri: exported.uri,
        policy_version: version,
      },
      work: { job_dir: jobDirectory, scratch_dir: `${jobDirectory}/scratch` },
      execution: executionOf(recipe.trainer, threads),
    },
  }
}

/** Returns where a job runs and its time limits. */
export function placeOf({
  nodes,
  ranksPerNode,
  device,
  timeoutS,
  stallS,
}: TrainerRecipe): Pick<LaunchedJob, 'layout' | 'limits'> {
  return {
    layout: { nodes, ranksPerNode, device },
    limits: { timeoutMs: timeoutS * 1000, stallMs: stallS * 1000, graceMs: GRACE_S * 1000 },
  }
}

/** Hashes the files' bytes only, so that Python and TypeScript need not share a canonical form of JSON. */
export function jobKey({ input, batch, config }: { input: string; batch: string; config: string }): string {
  return sha256Hex(`longhaul-step/1\n${input}\n${batch}\n${config}\n`)
}

function jobInput({ uri, manifestSha256, checkpointUri, checkpointSha256 }: PolicyRef) {
  // The checkpoint holds fp32 weights and the optimizer. The exported policy is rounded, so training cannot continue from it.
  if (checkpointUri !== null && checkpointSha256 !== null) {
    return { kind: 'checkpoint', uri: checkpointUri, manifest_sha256: checkpointSha256 }
  }
  return { kind: 'hf', uri, manifest_sha256: manifestSha256 }
}

/** The directory of the published policy, because the KL compares with the weights that servers hold. */
function referenceDirectory({ uri, manifestSha256 }: PolicyRef) {
  return { uri, manifest_sha256: manifestSha256 }
}

/** The optimizer state is carried within fine-tuning and within reinforcement, never from one objective to the other. */
function optimizerInit(recipe: Recipe, { kind, stage, iteration, slice, policy }: TrainingJobInput): 'fresh' | 'carry' {
  if (policy.checkpointUri === null) return 'fresh'
  if (slice > 0) return 'carry'
  if (kind === 'rft') return 'fresh'
  const { reinforce, index } = reinforceStage(recipe, stage)
  const isFirst = index === 0 && iteration === 1
  return isFirst || !reinforce.keepState ? 'fresh' : 'carry'
}

function epochsOf({ rft, reinforce }: Recipe, kind: 'rft' | 'dapo'): number {
  return (kind === 'rft' ? rft?.epochs : reinforce?.epochsPerIteration) ?? 1
}

async function countMinibatches(store: ArtifactStore, { batch }: TrainingJobInput): Promise<number> {
  const manifest = JSON.parse(Buffer.from(await store.get(batch)).toString('utf8')) as { minibatches: unknown[] }
  return manifest.minibatches.length
}

async function readTotalSteps(store: ArtifactStore, batchKey: string): Promise<number> {
  const key = `${directoryOf(batchKey)}/${JOB_PLAN}`
  const plan = await store.readRecord<JobPlanRecord>(key)
  if (plan !== null) return plan.totalSteps
  throw new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected the job plan beside the batch',
    details: { key },
  })
}

export function directoryOf(key: string): string {
  return key.slice(0, key.lastIndexOf('/'))
}

/** How a job is executed, in the format of its spec. */
export function executionOf(trainer: TrainerRecipe, threads: number | undefined): Record<string, unknown> {
  const { checkpoint } = trainer
  return {
    device: trainer.device,
    nodes: trainer.nodes,
    ranks_per_node: trainer.ranksPerNode,
    cp: trainer.contextParallel,
    deterministic: trainer.deterministic,
    max_tokens_per_micro: trainer.maxTokensPerMicro,
    ac: trainer.recompute ?? 'none',
    offload: trainer.offload,
    timeout_s: trainer.timeoutS,
    stall_s: trainer.stallS,
    grace_s: GRACE_S,
    ...(checkpoint === undefined ? {} : { inner_every: checkpoint.everySteps, inner_every_s: checkpoint.everyS }),
    ...(threads === undefined ? {} : { threads }),
  }
}
