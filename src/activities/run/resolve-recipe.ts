import type { ResolveRecipeInput, RunKind } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { evaluationOf } from '../../contracts/episode-purpose.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { ResolvedRun } from '../../contracts/workflows.types.ts'
import { isReservedStage, limitNames } from '../../domain/statistics/evaluation-limits.ts'
import type { StoredRecipe } from '../runtime/stored-records.ts'
import { allocateRun, requireRunName } from './run-names.ts'

export type RecipeLoader = (input: {
  name: string
  text?: string
  overrides?: Record<string, unknown>
}) => Promise<{ recipe: Recipe; hash: string }>

/** First activity of every root: parses the recipe, names the run, stores the resolved recipe. */
export async function resolveRecipe(
  deps: { store: ArtifactStore; loadRecipe: RecipeLoader },
  input: ResolveRecipeInput,
): Promise<ResolvedRun> {
  requireRunName(input.run)
  const { recipe, hash } = await deps.loadRecipe({
    name: input.recipe,
    ...(input.recipeText === undefined ? {} : { text: input.recipeText }),
    ...(input.overrides === undefined ? {} : { overrides: input.overrides }),
  })
  refuseUntrainable(recipe, input.kind)
  const claim = await allocateRun(deps.store, {
    run: input.run,
    kind: input.kind,
    recipe: recipe.name,
    recipeHash: hash,
    workflowId: input.workflowId,
    firstExecutionRunId: input.firstExecutionRunId,
    date: input.date,
    ...(input.kind === 'eval' ? { evaluation: ownEvaluation(recipe) } : {}),
  })
  const stored: StoredRecipe = { schema: 'longhaul.recipe/1', hash, recipe }
  const ref = await deps.store.putRecord(runKeys.recipe(claim.run), stored)
  const suites = Object.keys(recipe.evaluate.suites)
  return {
    run: claim.run,
    recipe: ref,
    recipeName: recipe.name,
    summary: `${recipe.name} · ${recipe.model.base}`.slice(0, 120),
    rft: recipe.rft !== null,
    stages: (recipe.reinforce?.stages ?? []).map(({ name, until }) => ({
      name,
      maxIterations: until.maxIterations,
      ...(until.plateau === null ? {} : { plateau: true as const }),
    })),
    evaluateEvery: recipe.reinforce?.evaluateEvery ?? null,
    gateRepeats: recipe.data.gate.repeats,
    gateWidth: recipe.data.gate.width,
    heldOutName: suiteName(recipe, 'heldOut'),
    ...(suites.length === 0 ? {} : { suites }),
    ...(claim.evaluation === undefined ? {} : { evaluation: claim.evaluation }),
  }
}

/** The recipe's name, unless that would be read as another evaluation of a run: one after a stage, inside one, or on a further suite. */
function ownEvaluation(recipe: Recipe): string {
  const { name } = recipe
  const { iteration, suite } = evaluationOf(name)
  const isTaken = isReservedStage(name) || limitNames(recipe).includes(name) || iteration !== null || suite !== null
  return isTaken ? 'alone' : name
}

/** @param which `train`, `heldOut`, or one of `evaluate.suites` */
export function suiteName(recipe: Recipe, which: string): string {
  return `${recipe.name}-${which === 'heldOut' ? 'held-out' : which}`
}

/** What no worker of this version can run is refused before anything starts, not after hours. */
function refuseUntrainable(recipe: Recipe, kind: RunKind): void {
  if (kind === 'train' && recipe.policyServer.kind === 'chat') {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message:
        'Expected a policy server that returns token ids (embedded, vllm or sglang) for training, got policyServer.kind chat; a chat endpoint can only be evaluated (longhaul evaluate)',
    })
  }
}
