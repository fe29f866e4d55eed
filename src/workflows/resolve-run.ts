import { upsertMemo, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow'
import type { ResolveRecipeInput, RunKind } from '../contracts/activities.types.ts'
import type { RecalledRun, ResolvedRun } from '../contracts/workflows.types.ts'
import { control } from './activity-proxies.ts'
import { failRun } from './failures.ts'
import { requireResult } from './require-result.ts'
import { rootAttributes } from './search-attributes.ts'

/** Identifies this root workflow uniquely, even if the user chose its id, for the put-if-absent of a run's name. */
export function rootIdentity(): Pick<ResolveRecipeInput, 'workflowId' | 'firstExecutionRunId' | 'date'> {
  const { workflowId, firstExecutionRunId, startTime } = workflowInfo()
  return { workflowId, firstExecutionRunId, date: startTime.toISOString().slice(0, 10) }
}

/** The part of a root's input that selects the recipe. */
type RecipeRequest = Pick<ResolveRecipeInput, 'recipe' | 'recipeText' | 'overrides' | 'run' | 'policy'> & {
  gitSha?: string
}

export interface RunToPlay {
  run: ResolvedRun
  /** What earlier executions of the run have completed; null for the first execution. */
  recalled: RecalledRun | null
}

/** Makes the rollouts of a root report their progress to it. */
export function withBoard(run: ResolvedRun): ResolvedRun {
  const { workflowId, startTime } = workflowInfo()
  return { ...run, board: { workflowId, since: startTime.getTime() } }
}

/** Resolves the recipe as a root's first activity. The run's name becomes its memo and search attribute. */
export async function resolveRun(kind: RunKind, request: RecipeRequest): Promise<RunToPlay> {
  const { recipe, recipeText, overrides, gitSha } = request
  if (gitSha !== undefined && !/^[0-9a-f]{7,64}$/.test(gitSha)) {
    throw failRun('Config.Invalid', `Expected gitSha to be 7 to 64 hexadecimal digits, got ${JSON.stringify(gitSha)}`)
  }
  const resolved = await control.resolveRecipe({
    recipe,
    ...(recipeText === undefined ? {} : { recipeText }),
    ...(overrides === undefined ? {} : { overrides }),
    ...(request.run === undefined ? {} : { run: request.run }),
    ...(request.policy === undefined ? {} : { policy: request.policy }),
    ...rootIdentity(),
    kind,
  })
  const { recalled = null, ...run } = requireResult('resolveRecipe', resolved)
  upsertMemo({ run: run.run, recipeHash: run.recipe.sha256 })
  upsertSearchAttributes(rootAttributes(run, gitSha))
  return { run, recalled }
}
