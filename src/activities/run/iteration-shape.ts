import type { PlannedIteration } from '../../contracts/activities.types.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import type { EpisodePurpose } from '../../contracts/episodes.types.ts'
import type { Recipe, ReinforceStageRecipe } from '../../contracts/recipe.types.ts'

/** Group size, and the number of groups that are played concurrently. */
export function sizesOf(
  recipe: Recipe,
  stage: string,
): Pick<PlannedIteration, 'groupSize' | 'maxReplacements' | 'maxOpenGroups'> {
  const { groupSize } = shape(recipe, purposeOf(stage))
  const { maxReplacements, maxOpenEpisodes } = recipe.rollout
  // One group more than fills the sampler, so that the next group has begun while the last episodes of a group end.
  return { groupSize, maxReplacements, maxOpenGroups: Math.ceil(maxOpenEpisodes / groupSize) + (groupSize > 1 ? 1 : 0) }
}

export function stageNamed({ reinforce }: Recipe, stage: string): ReinforceStageRecipe | undefined {
  return reinforce?.stages.find(({ name }) => name === stage)
}

export function shape(recipe: Recipe, purpose: EpisodePurpose): { groupSize: number; count: number | null } {
  switch (purpose.kind) {
    case 'evaluation':
      return { groupSize: recipe.evaluate.attempts, count: null }
    case 'rft':
      return { groupSize: recipe.rft?.rolloutsPerTask ?? 1, count: recipe.rft?.tasks ?? null }
    case 'reinforce':
      return {
        groupSize: recipe.reinforce?.groupSize ?? 1,
        count: stageNamed(recipe, purpose.stage)?.problemsPerIteration ?? null,
      }
  }
}
