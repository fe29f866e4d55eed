/** A run that trains and is evaluated, in a state that workers would have stored. */
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { policyKeys, runKeys } from '../../../src/contracts/keys.ts'
import type { TrackerRecipe } from '../../../src/contracts/trackers.types.ts'
import type { TrainingRecord } from '../../../src/contracts/training.types.ts'
import { makeEvaluation } from '../evaluation-records.ts'
import { makeTrainingRecipe } from '../training-records.ts'
import { putPart } from '../record-examples.ts'

export async function storeTrackedRun(
  store: ArtifactStore,
  run: string,
  trackers: readonly TrackerRecipe[] = [],
): Promise<void> {
  await putPart(store, runKeys.claim(run), {
    schema: 'longhaul.run/1',
    run,
    firstExecutionRunId: `execution-of-${run}`,
  })
  const recipe = { ...makeTrainingRecipe(), trackers }
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash: 'ef'.repeat(32), recipe })
}

export interface StoreTrainingInput {
  run: string
  stage?: string
  iteration: number
  /** First optimizer step. */
  step: number
  /** @default 2 */
  steps?: number
}

/** Stores figures that differ at each step; one is not a number, like a diverged trainer's. */
export async function storeTraining(
  store: ArtifactStore,
  { run, stage = 'dapo-1', iteration, step, steps = 2 }: StoreTrainingInput,
): Promise<void> {
  const record: TrainingRecord = {
    schema: 'longhaul.training/1',
    stage,
    iteration,
    slice: 0,
    policy: `v${step}`,
    steps: Array.from({ length: steps }, (_, at) => ({
      global_step: step + at,
      loss: 1 / (step + at + 2),
      k1: -1e-9 * (step + at),
      grad_norm: 12_345.678_901_234 + at,
      entropy: null,
    })),
    alarms: [],
  }
  await putPart(store, runKeys.training(run, stage, iteration, 0), record)
}

export async function storeEvaluation(
  store: ArtifactStore,
  { run, name, globalStep }: { run: string; name: string; globalStep: number },
): Promise<void> {
  const policy = `v${String(globalStep).padStart(6, '0')}-aaaaaaaa`
  await putPart(store, policyKeys.ref(policy), { version: policy, globalStep })
  const tasks = [
    { taskId: 'a', attempts: [1, 0] as (0 | 1)[] },
    { taskId: 'b', attempts: [globalStep > 0 ? 1 : 0, 1] as (0 | 1)[] },
  ]
  await putPart(store, runKeys.evaluation(run, name), makeEvaluation({ run, name, policy, tasks }))
}
