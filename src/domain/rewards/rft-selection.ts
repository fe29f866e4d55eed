import type { ValidEpisode } from '../ledger/episode-rules.ts'
import type { UnauditedRewards } from '../../contracts/recipe.types.ts'
import { compareText } from '../hash-order.ts'
import { paymentOf, type Unpaid } from './payment.ts'

export type RftDropReason = 'unresolved' | Unpaid | 'over-task-limit'

export type RftSelection =
  | { kind: 'kept'; episode: string }
  | { kind: 'dropped'; episode: string; reason: RftDropReason }

export interface SelectForRftInput {
  /** Valid episodes of the whole iteration, any order. */
  episodes: readonly ValidEpisode[]
  /** Successes of one task that may train; null = all of them, as the paper does. */
  maxPerTask: number | null
  unaudited: UnauditedRewards
}

/** Keeps what the hidden tests confirmed and an audit too, and nothing puts in doubt. Of too many successes the lowest indices stay, so that the choice repeats. */
export function selectForRft({ episodes, maxPerTask, unaudited }: SelectForRftInput): RftSelection[] {
  const keptOfTask = new Map<string, number>()
  return [...episodes]
    .sort((a, b) => compareText(a.taskId, b.taskId) || a.index - b.index)
    .map((record): RftSelection => {
      const { episode, taskId } = record
      const payment = paymentOf(record, unaudited)
      if (payment !== 'paid') return { kind: 'dropped', episode, reason: payment }
      const kept = keptOfTask.get(taskId) ?? 0
      if (maxPerTask !== null && kept >= maxPerTask) return { kind: 'dropped', episode, reason: 'over-task-limit' }
      keptOfTask.set(taskId, kept + 1)
      return { kind: 'kept', episode }
    })
}
