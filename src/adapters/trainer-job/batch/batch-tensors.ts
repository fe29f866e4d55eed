import { LonghaulError } from '../../../contracts/errors.ts'
import { encodeSafetensors, type Tensor, type TensorType } from './safetensors.ts'
import type { Trajectory } from './trajectory.ts'

export interface TensorRow {
  trajectory: Trajectory
  advantage: number | null
  /** One advantage per turn, if turns have rewards of their own. */
  turnAdvantages?: readonly number[]
  /** Weight of an expert's row, which replaces its advantage. No policy of the batch sampled the row, so it has no log-probabilities. */
  expertWeight?: number
  /** Index into the manifest's table of trajectories. */
  table: number
}

export interface EncodedTensors {
  bytes: Uint8Array
  /** The tensors as the manifest describes them. */
  tensors: Record<string, { dtype: TensorType; shape: number[] }>
}

export interface EncodeTensorsInput {
  rows: readonly TensorRow[]
  /** Policy versions in the manifest's order. */
  policies: readonly string[]
  withAdvantages: boolean
  /** False if the tokens were sampled after a prompt other than the row's. */
  withLogprobs: boolean
}

/** The policy version of context tokens, which no policy sampled. */
const NOT_SAMPLED = -1

/** Concatenates all rows, in the tensor order that the reader requires: 8-byte numbers, then 4-byte ones, then bytes. */
export function encodeTensors({ rows, policies, withAdvantages, withLogprobs }: EncodeTensorsInput): EncodedTensors {
  const tokens = rows.reduce((sum, { trajectory }) => sum + trajectory.ids.length, 0)
  const offsets = new BigInt64Array(rows.length + 1)
  const ids = new Int32Array(tokens)
  const logprobs = new Float32Array(tokens)
  const advantages = new Float32Array(withAdvantages ? tokens : 0)
  const versions = new Int32Array(tokens).fill(NOT_SAMPLED)
  const mask = new Uint8Array(tokens)
  let at = 0
  for (const [index, { trajectory, advantage, turnAdvantages, expertWeight }] of rows.entries()) {
    ids.set(trajectory.ids, at)
    mask.set(trajectory.lossMask, at)
    if (expertWeight === undefined) {
      logprobs.set(trajectory.logprobs, at)
      fillVersions(versions, trajectory, at, policies)
    }
    if (withAdvantages) {
      const valueOf = (turn: number): number => turnAdvantages?.[turn] ?? expertWeight ?? advantage ?? 0
      fillWhereTrained(advantages, trajectory, at, valueOf)
    }
    at += trajectory.ids.length
    offsets[index + 1] = BigInt(at)
  }
  const perToken = (name: string, dtype: TensorType, data: Tensor['data']): Tensor => ({
    name,
    dtype,
    shape: [tokens],
    data,
  })
  const tensors: Tensor[] = [
    { name: 'row_offsets', dtype: 'I64', shape: [rows.length + 1], data: offsets },
    { name: 'row_trajectory', dtype: 'I32', shape: [rows.length], data: Int32Array.from(rows, ({ table }) => table) },
    perToken('input_ids', 'I32', ids),
    ...(withLogprobs ? [perToken('behaviour_logprobs', 'F32', logprobs)] : []),
    ...(withAdvantages ? [perToken('advantages', 'F32', advantages)] : []),
    perToken('policy_version', 'I32', versions),
    perToken('loss_mask', 'U8', mask),
  ]
  return {
    bytes: encodeSafetensors(tensors),
    tensors: Object.fromEntries(tensors.map(({ name, dtype, shape }) => [name, { dtype, shape }])),
  }
}

function fillWhereTrained(
  target: Float32Array,
  { lossMask, turns }: Trajectory,
  from: number,
  valueOf: (turn: number) => number,
): void {
  for (const [turn, { start, tokens }] of turns.entries()) {
    for (let at = start; at < start + tokens; at++) if (lossMask[at] === 1) target[from + at] = valueOf(turn)
  }
}

function fillVersions(
  target: Int32Array,
  { versions, record }: Trajectory,
  from: number,
  policies: readonly string[],
): void {
  let at = from
  for (const { policy, tokens } of versions) {
    if (policy !== null) target.fill(indexOfPolicy(policy, policies, record.episode), at, at + tokens)
    at += tokens
  }
}

function indexOfPolicy(policy: string, policies: readonly string[], episode: string): number {
  const index = policies.indexOf(policy)
  if (index >= 0) return index
  throw new LonghaulError({
    code: 'Trainer.BatchRefused',
    message: 'Expected every sampled token to come from a listed policy',
    details: { episode, policy, listed: policies.join(' ') },
  })
}
