import type { ReinforceRecipe, UnauditedRewards } from '../../contracts/recipe.types.ts'
import { mean, standardDeviation } from '../statistics/statistics.ts'
import type { ValidEpisode } from '../ledger/episode-fates.ts'
import { compareText } from '../hash-order.ts'
import { type Unpaid, paymentOf } from './payment.ts'
import { LonghaulError } from '../../contracts/errors.ts'

/** One valid sibling. */
export interface GroupMember {
  episode: string
  outcome: 0 | 1
  reward: number
}

export interface GroupRule {
  /** `outcome` drops groups whose outcomes are all equal; with `shaped` only the spread of the shaped reward decides. */
  on: 'outcome' | 'shaped'
  alsoZeroAdvantage: boolean
  /** Nearly equal rewards give huge advantages, so a smaller spread than this is noise and not a signal. */
  minGroupStd: number
  minGroupSize: number
  delta: number
  /** @default groupStd */
  scale?: 'groupStd' | 'none'
  /** With `filter`, an episode that a limit ended stays a member of its group but is not trained on (DAPO, arXiv 2503.14476).
   *  @default keep */
  overlong?: 'keep' | 'filter'
  /** Successes are paired with failures and have no advantages. */
  pairs?: true
}

export type GroupDropReason = 'few' | 'outcome' | 'std'

type SelectedMember =
  | { kind: 'kept'; episode: string; advantage: number }
  | { kind: 'dropped'; episode: string; reason: 'zero-advantage' }

type GroupSelection =
  | { kind: 'kept'; std: number; members: SelectedMember[] }
  | { kind: 'dropped'; reason: GroupDropReason; std: number }

/** A smaller advantage moves no weight and would only count in N. */
const ZERO_ADVANTAGE = 1e-8

export function groupRuleOf({ filter, advantage, minGroupSize, overlong, loss }: ReinforceRecipe): GroupRule {
  const { on, alsoZeroAdvantage, minGroupStd } = filter
  return {
    on,
    alsoZeroAdvantage,
    minGroupStd,
    minGroupSize,
    delta: advantage.delta,
    ...scaleOf(advantage),
    ...(overlong === 'filter' ? { overlong } : {}),
    ...(loss.algorithm === 'dpo' ? { pairs: true } : {}),
  }
}

function scaleOf({ scale }: ReinforceRecipe['advantage']): Pick<GroupRule, 'scale'> {
  return scale === 'none' ? { scale } : {}
}

/** Decides one group. @param members valid siblings only, in index order; the result keeps that order */
export function selectGroup({ members, rule }: { members: readonly GroupMember[]; rule: GroupRule }): GroupSelection {
  const rewards = members.map((member) => member.reward)
  const std = standardDeviation(rewards)
  if (members.length < Math.max(2, rule.minGroupSize)) return { kind: 'dropped', reason: 'few', std }
  if (rule.on === 'outcome' && hasOneOutcome(members)) return { kind: 'dropped', reason: 'outcome', std }
  const { delta, scale = 'groupStd' } = rule
  const advantages = groupAdvantages({ rewards, delta, scale })
  if (std < rule.minGroupStd || advantages.every((advantage) => advantage === 0)) {
    return { kind: 'dropped', reason: 'std', std }
  }
  return {
    kind: 'kept',
    std,
    members: members.map(({ episode }, index) => decideMember(episode, advantages[index] ?? 0, rule)),
  }
}

function hasOneOutcome(members: readonly GroupMember[]): boolean {
  return members.every((member) => member.outcome === members[0]?.outcome)
}

function decideMember(episode: string, advantage: number, rule: GroupRule): SelectedMember {
  // An advantage of exactly 0 has no gradient and is always dropped. The switch also drops those near 0.
  const isZero = rule.alsoZeroAdvantage ? Math.abs(advantage) < ZERO_ADVANTAGE : advantage === 0
  return isZero ? { kind: 'dropped', episode, reason: 'zero-advantage' } : { kind: 'kept', episode, advantage }
}

export type RftDropReason = 'unresolved' | Unpaid | 'over-task-limit'

type RftSelection = { kind: 'kept'; episode: string } | { kind: 'dropped'; episode: string; reason: RftDropReason }

interface SelectForRftInput {
  /** Valid episodes of the whole iteration, in any order. */
  episodes: readonly ValidEpisode[]
  /** Maximum number of successes of one task that may train; null for no limit, as in the paper. */
  maxPerTask: number | null
  unaudited: UnauditedRewards
}

/** Keeps successes that hidden tests and an audit confirmed and that no sign puts in doubt. If there are too many, those with the
 *  lowest indices stay, so that the choice is repeatable. */
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

/** Two siblings, by episode: one that resolved its task and one that did not. */
export interface TrajectoryPair {
  chosen: string
  rejected: string
}

/**
 * Pairs the episodes of one group, each at most once: the successes with the highest rewards with the failures with the lowest, in
 * index order for equal rewards. Episodes left over on the longer side have no pair. @see DPO, arXiv 2305.18290 section 4
 */
export function pairMembers(members: readonly GroupMember[]): TrajectoryPair[] {
  const chosen = members.filter(({ outcome }) => outcome === 1).sort((a, b) => b.reward - a.reward)
  const rejected = members.filter(({ outcome }) => outcome === 0).sort((a, b) => a.reward - b.reward)
  return chosen.flatMap(({ episode }, index) => {
    const other = rejected[index]
    return other === undefined ? [] : [{ chosen: episode, rejected: other.episode }]
  })
}

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
