import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { Recipe, UnauditedRewards } from '../../contracts/recipe.types.ts'

/** Why a resolved episode is not paid. */
export type Unpaid = 'suspected-hack' | 'audit-void' | 'unaudited'

export type Payment = 'paid' | 'unresolved' | Unpaid

/**
 * Returns the payment of a verdict. A verdict by upstream's rules is paid only if an audit agrees. A resolved verdict without an
 * audit, as in records of earlier versions, counts as unaudited, like one whose tests the audit does not support.
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

/** Returns why a resolved episode is not paid; null for all other episodes. */
export function unpaidOf(
  record: Pick<EpisodeRecord, 'verdict' | 'suspectedHack' | 'audit'>,
  unaudited: UnauditedRewards,
): Unpaid | null {
  const payment = paymentOf(record, unaudited)
  return payment === 'paid' || payment === 'unresolved' ? null : payment
}

/** Recipes older than audits lack this key; they were paid by the official verdict alone. */
export function unauditedRewardsOf({ grading }: Partial<Pick<Recipe, 'grading'>>): UnauditedRewards {
  return grading?.unauditedRewards ?? 'allow'
}
