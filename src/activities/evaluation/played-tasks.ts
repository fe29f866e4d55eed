import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { UnauditedRewards } from '../../contracts/recipe.types.ts'
import { unauditedRewardsOf } from '../../domain/rewards/payment.ts'
import type { PlayedTask } from '../../domain/statistics/task-difficulty.ts'
import { createTaskReader, readOrThrow, type TaskReader } from '../runtime/stored-records.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import type { IterationPlan, StoredRecipe } from '../../contracts/run-records.types.ts'

export interface PlayedTasksInput {
  runs: readonly string[]
  /** Only these stages; empty means all, including evaluations. */
  stages: readonly string[]
  /** Only attempts of this policy; null means all. */
  policy: string | null
}

/** Returns every finished episode of the runs together with its task's row. */
export async function readPlayedTasks(store: ArtifactStore, input: PlayedTasksInput): Promise<PlayedTask[]> {
  const readTask = createTaskReader(store)
  const played: PlayedTask[] = []
  for (const run of new Set(input.runs)) {
    const stored = await store.readRecord<StoredRecipe>(runKeys.recipe(run))
    for (const plan of await readIterationPlans(store, run)) {
      if (input.stages.length > 0 && !input.stages.includes(plan.stage)) continue
      played.push(...(await readPlayed(store, readTask, plan, unauditedRewardsOf(stored?.recipe ?? {}))))
    }
  }
  const { policy } = input
  return policy === null ? played : played.filter(({ record }) => record.policy === policy)
}

async function readPlayed(
  store: ArtifactStore,
  readTask: TaskReader,
  plan: IterationPlan,
  unaudited: UnauditedRewards,
): Promise<PlayedTask[]> {
  const played: PlayedTask[] = []
  for (const record of await readEpisodeRecords(store, plan)) {
    const { rowHash } = await readTask({ suite: plan.suite, taskId: record.taskId })
    played.push({ record, rowHash, unaudited })
  }
  return played
}

/** Matches plans of iterations. Plans of training jobs have the same file name but lie beside their batches. */
export async function readIterationPlans(store: ArtifactStore, run: string): Promise<IterationPlan[]> {
  const keys = (await store.list(`runs/${run}/`)).filter((key) => /\/iterations\/\d+\/plan\.json$/.test(key))
  return Promise.all(keys.map((key) => readOrThrow<IterationPlan>(store, key)))
}
