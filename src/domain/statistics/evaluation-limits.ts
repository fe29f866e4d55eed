import type { EvaluateRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { isIntermediateEvaluation, stageOfEvaluation } from './evaluation-names.ts'

export interface AttemptLimits {
  maxTurns: number
  context: number
}

/** What the rules read of a recipe. */
export interface LimitedRecipe {
  /** `limits` is absent in recipes of before it existed. */
  evaluate: Pick<EvaluateRecipe, 'maxTurns' | 'context'> & Partial<Pick<EvaluateRecipe, 'limits'>>
  rft: unknown
  reinforce: { stages: readonly { name: string }[] } | null
}

/** Names that `evaluate.limits` may hold: each has an evaluation in a run of the recipe. */
export function limitNames({ rft, reinforce }: Pick<LimitedRecipe, 'rft' | 'reinforce'>): string[] {
  return ['base', ...(rft === null ? [] : ['rft']), ...(reinforce?.stages ?? []).map(({ name }) => name)]
}

/**
 * The limits of each attempt of an evaluation. A stage's limits hold for the evaluation after it, on whichever suite, and for
 * those inside it; `rl` is the evaluation after the last stage. What has none of its own has those of `evaluate` itself.
 */
export function evaluationLimits(recipe: LimitedRecipe, evaluation: string): AttemptLimits {
  const { maxTurns, context, limits = {} } = recipe.evaluate
  const stage = stageOfEvaluation(evaluation)
  const last = recipe.reinforce?.stages.at(-1)?.name
  const own = limits[stage === 'rl' && !isIntermediateEvaluation(evaluation) ? (last ?? stage) : stage]
  return own ?? { maxTurns, context }
}

/** Whether a difference between two evaluations could be that of their limits. */
export function haveEqualLimits(recipe: Recipe, one: string, other: string): boolean {
  const [left, right] = [evaluationLimits(recipe, one), evaluationLimits(recipe, other)]
  return left.maxTurns === right.maxTurns && left.context === right.context
}
