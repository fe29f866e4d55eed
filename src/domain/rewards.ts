import { LonghaulError } from '../contracts/errors.ts'
import type { PolicyDisposition, VerdictKind } from '../contracts/episodes.types.ts'
import type { ReinforceRecipe, ReinforceStageRecipe } from '../contracts/recipe.types.ts'

/** What one stage pays: the recipe's reward with the stage's numbers put in. */
export interface RewardRule {
  pass: number
  fail: number
  unsubmitted: number
  penalty: TurnPenaltyRule
}

export interface TurnPenaltyRule {
  /** L_thr: turns up to here are free. */
  start: number
  /** T_max: the penalty is `min` here. */
  end: number
  /** Lowest value, −1 in the paper. Its magnitude scales the term. */
  min: number
}

export interface RewardInput {
  rule: RewardRule
  verdict: Exclude<VerdictKind, 'could-not-grade'>
  /** A suspected hack is paid as a failure, whatever the tests said. */
  suspectedHack: boolean
  disposition: PolicyDisposition
  /** |τ|: number of actions, format errors included. */
  turns: number
}

/** A list, so that step-level or verifier rewards can join without a new shape. */
export interface RewardComponent {
  name: 'verdict' | 'turn-penalty'
  value: number
}

export interface Reward {
  /** Sum of the components. */
  reward: number
  /** 1 = the hidden tests passed by a repair; what filters on `outcome` and pass@1 read. */
  outcome: 0 | 1
  components: RewardComponent[]
}

export function rewardRuleOf({ reward }: Pick<ReinforceRecipe, 'reward'>, stage: ReinforceStageRecipe): RewardRule {
  const { pass, fail, unsubmitted, turnPenalty } = reward
  return { pass, fail, unsubmitted, penalty: { start: stage.penaltyStart, end: stage.maxTurns, min: turnPenalty.min } }
}

/**
 * Final reward of one valid episode, eq. 3. Lost and ungraded episodes have no reward: they never come here.
 * @throws LonghaulError `Config.Invalid`   @see arXiv 2508.03501 §3.1, §4.3
 */
export function rewardOf({ rule, verdict, suspectedHack, disposition, turns }: RewardInput): Reward {
  const resolved = verdict === 'resolved' && !suspectedHack
  const value = resolved ? rule.pass : disposition === 'submitted' ? rule.fail : rule.unsubmitted
  const penalty = turnPenalty({ rule: rule.penalty, turns })
  return {
    reward: value + penalty,
    outcome: resolved ? 1 : 0,
    components: [
      { name: 'verdict', value },
      { name: 'turn-penalty', value: penalty },
    ],
  }
}

/** R_len, eq. 4: 0 up to `start`, falling linearly to `min` at `end` and never below it. @throws LonghaulError `Config.Invalid` */
export function turnPenalty({ rule, turns }: { rule: TurnPenaltyRule; turns: number }): number {
  const { start, end, min } = rule
  if (end <= start) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected the turn penalty to start before the turn limit',
      details: { start, end },
    })
  }
  if (turns <= start || min === 0) return 0
  return (Math.abs(min) * (start - Math.min(turns, end))) / (end - start)
}
