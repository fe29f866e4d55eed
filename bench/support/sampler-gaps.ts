import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import type { TrainingRecord } from '../../src/contracts/training.types.ts'

/** How far the trainer's log-probabilities of the sampled tokens, before the step, are from those that the sampler reported. */
export interface SamplerGap {
  iteration: number
  /** Optimizer step of the job, from 1. */
  step: number
  /** Mean, nats a token. */
  k1: number
  k3: number
  absDlogpMax: number
  absDlogpP99: number
  /** Effective share of the samples. */
  ess: number
  isStd: number
}

/** Of all optimizer steps of reinforcement, in their order. */
export async function samplerGaps(store: ArtifactStore, run: string): Promise<SamplerGap[]> {
  const keys = await store.list(`${runKeys.folder(run)}training/`)
  const gaps: SamplerGap[] = []
  for (const key of keys.toSorted()) {
    const record = await store.readRecord<TrainingRecord>(key)
    for (const [at, step] of (record?.steps ?? []).entries()) {
      // Fine-tuning has no sampler to be compared with.
      if (!('k3' in step)) continue
      const number = (name: string): number => Number(step[name])
      gaps.push({
        iteration: record?.iteration ?? Number.NaN,
        step: at + 1,
        k1: number('k1'),
        k3: number('k3'),
        absDlogpMax: number('abs_dlogp_max'),
        absDlogpP99: number('abs_dlogp_p99'),
        ess: number('ess'),
        isStd: number('is_std'),
      })
    }
  }
  return gaps
}
