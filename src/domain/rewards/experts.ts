import type { ExpertRecipe } from '../../contracts/recipe.types.ts'
import type { EpisodeFate, ScoredGroup } from '../ledger/episode-fates.ts'

export interface TaskExperts {
  taskId: string
  /** The best choice first. */
  episodes: string[]
}

export interface SelectExpertsInput {
  groups: readonly ScoredGroup[]
  /** The fates of the fine-tuning episodes, by task and index. */
  fineTuned: readonly { taskId: string; fate: EpisodeFate }[]
  rule: Pick<ExpertRecipe, 'below'>
}

/**
 * Selects tasks that the policy solves too seldom, each with the episodes that fine-tuning kept for it. A group that lost episodes to
 * infrastructure says nothing about the policy. @see AHPO, arXiv 2510.08540 eq. 6
 */
export function selectExperts({ groups, fineTuned, rule }: SelectExpertsInput): TaskExperts[] {
  return groups.flatMap(({ taskId, members, dropped }) => {
    const solved = members.filter(({ outcome }) => outcome === 1).length
    if (dropped === 'few' || solved >= rule.below) return []
    const episodes = fineTuned
      .filter((one) => one.taskId === taskId && one.fate.kind === 'train')
      .map(({ fate }) => fate.episode)
    return episodes.length === 0 ? [] : [{ taskId, episodes }]
  })
}
