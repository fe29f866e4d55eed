import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { Recipe, UnauditedRewards } from '../../contracts/recipe.types.ts'

/** Why a resolved episode is not paid. */
export type Unpaid = 'suspected-hack' | 'audit-void' | 'unaudited'

export type Payment = 'paid' | 'unresolved' | Unpaid

/**
 * What a verdict is worth. The official verdict says what upstream's harness would say; only what an audit agrees with is paid. A
 * resolved verdict without an audit, as records of earlier versions have it, is unaudited, like one whose tests no audit can run.
 */
export function paymentOf(
  { verdict, suspectedHack, audit }: Pick<EpisodeRecord, 'verdict' | 'suspectedHack' | 'audit'>,
  unaudited: UnauditedRewards,
): Payment {
  if (verdict !== 'resolved') return 'unresolved'
  if (suspectedHack) return 'suspected-hack'
  switch (audit?.outcome) {
    case 'agrees':
      return 'paid'
    case 'void':
      return 'audit-void'
    default:
      return unaudited === 'allow' ? 'paid' : 'unaudited'
  }
}

/** Null where a resolved episode is paid, and for every other. */
export function unpaidOf(
  record: Pick<EpisodeRecord, 'verdict' | 'suspectedHack' | 'audit'>,
  unaudited: UnauditedRewards,
): Unpaid | null {
  const payment = paymentOf(record, unaudited)
  return payment === 'paid' || payment === 'unresolved' ? null : payment
}

/** Recipes stored before there were audits do not have the key: what was paid by them was paid on the official verdict alone. */
export function unauditedRewardsOf({ grading }: Partial<Pick<Recipe, 'grading'>>): UnauditedRewards {
  return grading?.unauditedRewards ?? 'allow'
}
