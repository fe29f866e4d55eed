import type { ActionRecord } from '../../contracts/episodes.types.ts'
import type { TokenUsage } from '../../contracts/policy.types.ts'

type CountedAction = Pick<ActionRecord, 'promptDelta' | 'ids' | 'chat'>

/**
 * Counts tokens read and written over all samples of an episode, each of which reads the whole conversation before it. Ids are counted,
 * a chat endpoint's own counts are summed, and nothing is estimated.
 * @returns null if an endpoint reported no counts; `cachedTokens` is null if it did not report those
 */
export function usageOf(actions: readonly CountedAction[]): TokenUsage | null {
  let context = 0
  const total: TokenUsage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 }
  for (const { promptDelta, ids, chat } of actions) {
    context += promptDelta.length
    const used = chat === undefined ? countIds(context, ids) : chat.usage
    if (used === null) return null
    context += ids.length
    total.promptTokens += used.promptTokens
    total.completionTokens += used.completionTokens
    total.cachedTokens =
      total.cachedTokens === null || used.cachedTokens === null ? null : total.cachedTokens + used.cachedTokens
  }
  return total
}

/** A token server does not report what its prefix cache saved. */
function countIds(context: number, ids: readonly number[]): TokenUsage {
  return { promptTokens: context, cachedTokens: null, completionTokens: ids.length }
}

/** Number of context tokens after the last of these turns; null if an endpoint did not report counts. */
export function contextOf(actions: readonly CountedAction[]): number | null {
  const last = actions.at(-1)
  if (last?.chat !== undefined) {
    const { usage } = last.chat
    return usage === null ? null : usage.promptTokens + usage.completionTokens
  }
  return actions.reduce((sum, { promptDelta, ids }) => sum + promptDelta.length + ids.length, 0)
}
