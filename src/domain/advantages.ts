import { LonghaulError } from '../contracts/errors.ts'
import { mean, standardDeviation } from './moments.ts'

/**
 * Group-relative advantages of one group: (r − mean) / (std + delta), std with divisor n − 1.
 * @param rewards one finite number per valid episode, length ≥ 2; lost episodes already removed
 * @returns same order, mean 0; all exactly 0 when every reward is equal (the group is then discarded)
 * @throws LonghaulError `Group.TooSmall`   @see DAPO, arXiv 2503.14476; arXiv 2508.03501 eq. 2
 */
export function groupAdvantages({ rewards, delta }: { rewards: readonly number[]; delta: number }): number[] {
  if (rewards.length < 2) {
    throw new LonghaulError({
      code: 'Group.TooSmall',
      message: 'Expected at least two valid episodes in a group, because one has no spread',
      details: { valid: rewards.length },
    })
  }
  const center = mean(rewards)
  // Rounding in the mean would give equal rewards tiny advantages, and a group without signal would train.
  if (rewards.every((reward) => reward === rewards[0])) return rewards.map(() => 0)
  const scale = standardDeviation(rewards) + delta
  return rewards.map((reward) => (reward - center) / scale)
}
