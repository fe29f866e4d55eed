import type { ArtifactStore } from '../../src/contracts/artifacts.types.ts'
import { runKeys } from '../../src/contracts/keys.ts'
import type { TrainingRecord } from '../../src/contracts/training.types.ts'

/** How far the trainer's log-probabilities of the sampled tokens, before the step, are from those that the sampler reported. */
export interface SamplerGap {
  iteration: number
  /** Optimizer step of the job, from 1. */
  step: number
  /** Mean, nats per token. */
  k1: number
  k3: number
  absDlogpMax: number
  absDlogpP99: number
  /** Share of effective samples. */
  ess: number
  isStd: number
}

/** The record of each training job of a run, in the order of the keys. */
export async function readTrainings(store: ArtifactStore, run: string): Promise<TrainingRecord[]> {
  const keys = await store.list(`${runKeys.folder(run)}training/`)
  const records = await Promise.all(keys.toSorted().map((key) => store.readRecord<TrainingRecord>(key)))
  return records.filter((record) => record !== null)
}

/** One entry for each optimizer step of reinforcement, in order. */
export function samplerGaps(trainings: readonly TrainingRecord[]): SamplerGap[] {
  const gaps: SamplerGap[] = []
  for (const { iteration, steps } of trainings) {
    for (const [at, step] of steps.entries()) {
      // Fine-tuning has no sampler to compare with.
      if (!('k3' in step)) continue
      const number = (name: string): number => Number(step[name])
      gaps.push({
        iteration,
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
