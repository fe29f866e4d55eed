import type { ArtifactRef, ArtifactStore } from '../../../contracts/artifacts.types.ts'
import type { SamplingOptions } from '../../../contracts/episodes.types.ts'
import { LonghaulError } from '../../../contracts/errors.ts'
import type { GroupDropReason } from '../../../domain/rewards/group-selection.ts'
import { compareText } from '../../../domain/hash-order.ts'
import { encodeTensors } from './batch-tensors.ts'
import type { Trajectory } from './trajectory.ts'
import type { JobPlanRecord } from '../../../contracts/training.types.ts'

export const BATCH_FILE = 'batch.safetensors'
export const BATCH_MANIFEST = 'batch.json'

/** The job's further input, stored with the batch so that a job needs only the batch's reference. */
export const JOB_PLAN = 'plan.json'

/** A trajectory and its position in the batch. */
export interface BatchRow {
  trajectory: Trajectory
  /** Id of the trajectory's group. */
  group: string
  /** Position among the group's valid siblings; null for an expert, which is not a sibling. */
  member: number | null
  /** Null in a fine-tuning batch, and for an expert. */
  advantage: number | null
  /** Set only for an expert, which is a success of another policy. Its tokens have this weight and no ratio. */
  expertWeight?: number
  /** The advantage of each turn, if turns have rewards of their own: the trajectory's advantage combined with the turn's. */
  turnAdvantages?: readonly number[]
}

export interface BatchGroup {
  id: string
  taskId: string
  /** Rewards of all valid siblings, including those of dropped groups, because the trainer recomputes the advantages from them. */
  rewards: number[]
  outcomes: (0 | 1)[]
  infra: number
  dropped: GroupDropReason | null
  /** For each valid sibling, the reward of each turn. */
  stepRewards?: readonly (readonly number[])[]
}

/** How the advantages were computed from the groups' rewards. */
export interface BatchAdvantage {
  /** @default groupStd */
  scale?: 'groupStd' | 'none'
  delta: number
  filter: 'outcome' | 'shaped'
  /** Weight of a turn's own advantage; absent if turns have none. */
  stepWeight?: number
  /** Rows come in pairs, chosen before rejected, with advantages 1 and −1. */
  pairs?: true
}

export interface WriteBatchInput {
  store: ArtifactStore
  /** Directory of both files, `runKeys.batch(…)`. */
  directory: string
  kind: 'rft' | 'dapo'
  run: string
  iteration: number
  /** In shuffled order (`orderByHash` of `episodeMaterial`). Mini-batches are consecutive slices of it. */
  rows: readonly BatchRow[]
  /** Number of trajectories in each mini-batch, in order; their sum is the number of rows. */
  minibatches: readonly number[]
  groups: readonly BatchGroup[]
  /** Policies that sampled the batch, with their manifests. */
  policies: readonly { version: string; manifestSha256: string }[]
  tokenizerSha256: string
  vocabSize: number
  /** The stage's context length; no row may be longer. */
  maxRowTokens: number
  sampling: SamplingOptions
  /** Optimizer steps of all jobs of this stage or iteration, over which a learning-rate schedule decays. */
  totalSteps: number
  /** Null in a fine-tuning batch. */
  advantage: BatchAdvantage | null
}

/**
 * Writes `batch.safetensors`, then `batch.json`, which contains its hash, so that a manifest never exists without its file. The bytes
 * depend only on the content: repeating the call succeeds, and other content conflicts. The file is built in memory with 17 bytes per
 * token, or about 60 million tokens per GiB.
 * @returns reference of `batch.json`
 * @throws LonghaulError `Batch.Empty`, `Trainer.BatchRefused`
 */
export async function writeBatch(input: WriteBatchInput): Promise<ArtifactRef> {
  const { store, directory, rows } = input
  if (rows.length === 0)
    throw new LonghaulError({ code: 'Batch.Empty', message: 'Expected at least one trajectory in a batch' })
  checkRows(input)
  const table = [...rows].sort((a, b) => compareText(idOf(a), idOf(b)))
  const policies = [...input.policies].sort((a, b) => compareText(a.version, b.version))
  const file = encodeTensors({
    rows: rows.map((row) => ({ ...row, table: table.indexOf(row) })),
    policies: policies.map(({ version }) => version),
    withAdvantages: input.kind === 'dapo',
    withLogprobs: !rows.some(({ trajectory, expertWeight }) => expertWeight === undefined && trajectory.hasOtherPrompt),
  })
  const plan: JobPlanRecord = { schema: 'longhaul.job-plan/1', totalSteps: input.totalSteps }
  await store.putRecord(`${directory}/${JOB_PLAN}`, plan)
  const { sha256, bytes } = await store.put(`${directory}/${BATCH_FILE}`, file.bytes)
  const manifest = {
    schema: 'longhaul.batch/1',
    stage: input.kind,
    run_id: input.run,
    iteration: input.iteration,
    file: { name: BATCH_FILE, bytes, sha256 },
    tensors: file.tensors,
    tokenizer_sha256: input.tokenizerSha256,
    vocab_size: input.vocabSize,
    max_row_tokens: input.maxRowTokens,
    counts: countAll(input),
    sampling: samplingOf(input.sampling),
    policies: policies.map(({ version, manifestSha256 }) => ({ version, manifest_sha256: manifestSha256 })),
    adv: input.advantage === null ? null : describeAdvantage(input.advantage),
    minibatches: describeMinibatches(input),
    groups: describeGroups(input.groups),
    trajectories: table.map(describeRow),
  }
  return store.put(`${directory}/${BATCH_MANIFEST}`, Buffer.from(`${JSON.stringify(manifest)}\n`))
}

function countAll({ rows, groups }: WriteBatchInput) {
  return {
    rows: rows.length,
    trajectories: rows.length,
    groups: groups.length,
    tokens: sum(rows, ({ ids }) => ids.length),
    loss_tokens: sum(rows, ({ lossTokens }) => lossTokens),
    dropped_nonfinite: sum(rows, ({ droppedNonfinite }) => droppedNonfinite),
  }
}

/** One row per trajectory. The history only grows, so a turn needs no row of its own. */
function describeMinibatches({ rows, minibatches }: WriteBatchInput) {
  let first = 0
  return minibatches.map((size) => {
    const part = rows.slice(first, first + size)
    const entry = {
      first_row: first,
      rows: size,
      trajectories: size,
      loss_tokens: sum(part, ({ lossTokens }) => lossTokens),
    }
    first += size
    return entry
  })
}

function describeGroups(groups: readonly BatchGroup[]) {
  return [...groups]
    .sort((a, b) => compareText(a.id, b.id))
    .map(({ id, taskId, rewards, outcomes, infra, dropped, stepRewards }) => ({
      id,
      task_id: taskId,
      rewards,
      outcomes,
      n_infra: infra,
      dropped,
      ...(stepRewards === undefined ? {} : { step_rewards: stepRewards }),
    }))
}

/** Delta is added to the standard deviation, so it is present only with that scale. */
function describeAdvantage({ scale = 'groupStd', delta, filter, stepWeight, pairs }: BatchAdvantage) {
  if (pairs === true) return { pairs: 'outcome', filter }
  const steps = stepWeight === undefined ? {} : { step_weight: stepWeight }
  return scale === 'none' ? { std: 'none', filter, ...steps } : { std: 'n-1', delta, filter, ...steps }
}

function describeRow({ trajectory, group, member, advantage, turnAdvantages, expertWeight }: BatchRow) {
  const { record, sampledTokens, maskedTokens, turns } = trajectory
  return {
    id: record.episode,
    group,
    member,
    rows: 1,
    turns: record.turns,
    sampled_tokens: sampledTokens,
    masked_tokens: maskedTokens,
    disposition: record.disposition,
    advantage,
    ...(expertWeight === undefined ? {} : { expert: expertWeight }),
    ...(turnAdvantages === undefined ? {} : { turn_tokens: turns.map(({ tokens }) => tokens) }),
  }
}

function samplingOf({ temperature, topP, topK, minP, repetitionPenalty }: SamplingOptions) {
  return {
    temperature,
    top_p: topP,
    top_k: topK,
    min_p: minP,
    repetition_penalty: repetitionPenalty,
    logprobs_mode: 'processed_logprobs',
  }
}

function checkRows({ rows, minibatches, kind, maxRowTokens }: WriteBatchInput): void {
  const placed = minibatches.reduce((total, size) => total + size, 0)
  if (placed !== rows.length) throw refuse('mini-batches that contain every row', { rows: rows.length, placed })
  if (new Set(rows.map(idOf)).size !== rows.length) throw refuse('each episode once', { rows: rows.length })
  for (const row of rows) {
    const { lossTokens, ids } = row.trajectory
    const episode = idOf(row)
    const isExpert = row.expertWeight !== undefined
    if (isExpert && kind === 'rft') throw refuse('experts in dapo batches only', { episode })
    if (kind === 'dapo' && !isExpert && row.trajectory.hasOtherPrompt)
      throw refuse('rows that begin with the prompt they were sampled with', { episode })
    if (lossTokens === 0) throw refuse('a token to train on in every row', { episode })
    if (ids.length > maxRowTokens)
      throw refuse('rows within the context', { episode, tokens: ids.length, maxRowTokens })
    if ((row.advantage === null) !== (kind === 'rft' || isExpert))
      throw refuse('an advantage in dapo rows only', { episode, kind })
  }
}

function idOf({ trajectory }: BatchRow): string {
  return trajectory.record.episode
}

function sum(rows: readonly BatchRow[], value: (trajectory: Trajectory) => number): number {
  return rows.reduce((total, { trajectory }) => total + value(trajectory), 0)
}

function refuse(expected: string, details: Record<string, string | number>): LonghaulError {
  return new LonghaulError({ code: 'Trainer.BatchRefused', message: `Expected ${expected}`, details })
}
