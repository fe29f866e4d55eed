import type { EvaluationPurpose } from '../../contracts/episodes.types.ts'
import type { EvaluateRecipe, Recipe } from '../../contracts/recipe.types.ts'
import { evaluationOf, purposeOf } from '../../contracts/episode-purpose.ts'

export interface AttemptLimits {
  maxTurns: number
  context: number
}

/** The part of a recipe that the rules read. */
export interface LimitedRecipe {
  /** `limits` is absent in older recipes. */
  evaluate: Pick<EvaluateRecipe, 'maxTurns' | 'context'> & Partial<Pick<EvaluateRecipe, 'limits'>>
  rft: unknown
  reinforce: { stages: readonly { name: string }[] } | null
}

/** Names that `evaluate.limits` may contain: each has an evaluation in a run of the recipe. */
export function limitNames({ rft, reinforce }: Pick<LimitedRecipe, 'rft' | 'reinforce'>): string[] {
  return ['base', ...(rft === null ? [] : ['rft']), ...(reinforce?.stages ?? []).map(({ name }) => name)]
}

/**
 * Returns the limits of each attempt of an evaluation. A stage's limits apply to the evaluation after it, on any suite, and to those
 * inside it; `rl` is the evaluation after the last stage. An evaluation without its own limits has those of `evaluate`.
 */
export function evaluationLimits(recipe: LimitedRecipe, evaluation: string): AttemptLimits {
  const { maxTurns, context, limits = {} } = recipe.evaluate
  return limits[stageBefore(evaluationOf(evaluation), recipe.reinforce?.stages ?? [])] ?? { maxTurns, context }
}

/** Returns whether two evaluations have equal limits, so that limits cannot explain a difference. */
export function haveEqualLimits(recipe: Recipe, one: string, other: string): boolean {
  const [left, right] = [evaluationLimits(recipe, one), evaluationLimits(recipe, other)]
  return left.maxTurns === right.maxTurns && left.context === right.context
}

/** The last trained stage before an evaluation. */
function stageBefore({ name, iteration }: EvaluationPurpose, stages: readonly { name: string }[]): string {
  return name === 'rl' && iteration === null ? (stages.at(-1)?.name ?? name) : name
}

/** Returns whether a reinforce stage of this name would be parsed as something else. */
export function isReservedStage(name: string): boolean {
  if (['base', 'rl'].includes(name)) return true
  return purposeOf(name).kind !== 'reinforce' || evaluationOf(name).name !== name
}
