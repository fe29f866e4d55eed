import { LonghaulError } from '../../contracts/errors.ts'
import { mean, standardDeviation } from '../statistics/moments.ts'

export interface GroupAdvantagesInput {
  rewards: readonly number[]
  delta: number
  /** `none`: (r − mean), without the division (Dr. GRPO, arXiv 2503.20783). @default groupStd */
  scale?: 'groupStd' | 'none'
}

/**
 * Group-relative advantages of one group: (r − mean) / (std + delta), std with divisor n − 1.
 * @param rewards one finite number per valid episode, length ≥ 2; lost episodes already removed
 * @returns same order, mean 0; all exactly 0 when every reward is equal (the group is then discarded)
 * @throws LonghaulError `Group.TooSmall`   @see DAPO, arXiv 2503.14476; arXiv 2508.03501 eq. 2
 */
export function groupAdvantages({ rewards, delta, scale = 'groupStd' }: GroupAdvantagesInput): number[] {
  if (rewards.length < 2) {
    throw new LonghaulError({
      code: 'Group.TooSmall',
      message: 'Expected at least two valid episodes in a group, because one has no spread',
      details: { valid: rewards.length },
    })
  }
  const center = mean(rewards)
  // Rounding in the mean would give equal rewards tiny advantages, and a group without a signal would be trained on.
  if (rewards.every((reward) => reward === rewards[0])) return rewards.map(() => 0)
  const divisor = scale === 'none' ? 1 : standardDeviation(rewards) + delta
  return rewards.map((reward) => (reward - center) / divisor)
}
