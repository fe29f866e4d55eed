import type { EvaluationPurpose } from '../../contracts/episodes.types.ts'
import type { EvaluateRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { evaluationOf, purposeOf } from '../../contracts/episode-purpose.ts'

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
  return limits[stageBefore(evaluationOf(evaluation), recipe.reinforce?.stages ?? [])] ?? { maxTurns, context }
}

/** Whether a difference between two evaluations could be that of their limits. */
export function haveEqualLimits(recipe: Recipe, one: string, other: string): boolean {
  const [left, right] = [evaluationLimits(recipe, one), evaluationLimits(recipe, other)]
  return left.maxTurns === right.maxTurns && left.context === right.context
}

/** The stage that was trained last before an evaluation of a recipe's stages. */
function stageBefore({ name, iteration }: EvaluationPurpose, stages: readonly { name: string }[]): string {
  return name === 'rl' && iteration === null ? (stages.at(-1)?.name ?? name) : name
}

/** Whether a reinforce stage of this name would be read back as something else. */
export function isReservedStage(name: string): boolean {
  if (['base', 'rft', 'rl'].includes(name)) return true
  return purposeOf(name).kind !== 'reinforce' || evaluationOf(name).name !== name
}
