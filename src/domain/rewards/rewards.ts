import { LonghaulError } from '../../contracts/errors.ts'
import { purposeOf } from '../../contracts/episode-purpose.ts'
import type { EpisodeRecord, PolicyDisposition, VerdictKind } from '../../contracts/episodes.types.ts'
import type { Recipe, ReinforceRecipe, ReinforceStageRecipe, UnauditedRewards } from '../../contracts/recipe.types.ts'
import { paymentOf, unauditedRewardsOf } from './payment.ts'

/** The reward of one stage: the recipe's reward with the stage's numbers. */
export interface RewardRule {
  pass: number
  fail: number
  unsubmitted: number
  penalty: TurnPenaltyRule
  /** In tokens of the episode's context; null means no penalty. @default null */
  context?: ContextPenaltyRule | null
  /** Whether a resolved verdict is paid if no audit could check it. */
  unaudited: UnauditedRewards
}

export interface TurnPenaltyRule {
  /** L_thr: turns up to here are free. */
  start: number
  /** T_max: the penalty is `min` here. */
  end: number
  /** Lowest value, −1 in the paper. Its magnitude scales the term. */
  min: number
}

/** The same linear penalty over tokens: free up to `start`, `min` at `end`, where the context is full. */
export type ContextPenaltyRule = TurnPenaltyRule

export interface RewardInput {
  rule: RewardRule
  verdict: Exclude<VerdictKind, 'could-not-grade'>
  /** A suspected hack is paid as a failure, regardless of the tests. So is a verdict that its audit contradicts. */
  suspectedHack: boolean
  audit?: NonNullable<EpisodeRecord['audit']>
  disposition: PolicyDisposition
  /** |τ|: number of actions, format errors included. */
  turns: number
  /** Tokens of prompts, replies and observations together; required if the rule has a context penalty. */
  contextTokens?: number | null
}

/** A list, so that step-level or verifier rewards can be added without a new type. */
export interface RewardComponent {
  name: 'verdict' | 'turn-penalty' | 'context-penalty'
  value: number
}

export interface Reward {
  /** Sum of the components. */
  reward: number
  /** 1 if the hidden tests passed by a repair and the success is paid; filters on `outcome` read this. */
  outcome: 0 | 1
  components: RewardComponent[]
}

export function rewardRuleOf(
  { reward }: Pick<ReinforceRecipe, 'reward'>,
  stage: ReinforceStageRecipe,
  unaudited: UnauditedRewards,
): RewardRule {
  const { pass, fail, unsubmitted, turnPenalty } = reward
  // Recipes stored by an older version lack this key.
  const contextPenalty = reward.contextPenalty ?? null
  const { context } = stage
  return {
    pass,
    fail,
    unsubmitted,
    penalty: { start: stage.penaltyStart, end: stage.maxTurns, min: turnPenalty.min },
    unaudited,
    ...(contextPenalty === null
      ? {}
      : { context: { start: contextPenalty.start * context, end: context, min: contextPenalty.min } }),
  }
}

/** Returns the reward rule of a stored recipe's stage; null for fine-tuning and evaluations, which have no reward. */
export function stageRewardRule(
  { reinforce, grading }: Pick<Recipe, 'reinforce'> & Partial<Pick<Recipe, 'grading'>>,
  stage: string,
): RewardRule | null {
  if (purposeOf(stage).kind !== 'reinforce') return null
  const found = reinforce?.stages.find(({ name }) => name === stage)
  if (!reinforce || found === undefined) return null
  return rewardRuleOf(reinforce, found, unauditedRewardsOf(grading === undefined ? {} : { grading }))
}

/**
 * Computes the final reward of one valid episode, eq. 3. Lost and ungraded episodes have no reward and must not be passed.
 * @throws LonghaulError `Config.Invalid`   @see arXiv 2508.03501 §3.1, §4.3
 */
export function rewardOf(input: RewardInput): Reward {
  const { rule, disposition, turns, contextTokens = null } = input
  const resolved = paymentOf(input, rule.unaudited) === 'paid'
  const value = resolved ? rule.pass : disposition === 'submitted' ? rule.fail : rule.unsubmitted
  const penalty = turnPenalty({ rule: rule.penalty, turns })
  const components: RewardComponent[] = [
    { name: 'verdict', value },
    { name: 'turn-penalty', value: penalty },
  ]
  const price = rule.context ?? null
  if (price !== null) {
    components.push({ name: 'context-penalty', value: contextPenalty({ rule: price, contextTokens }) })
  }
  return {
    reward: components.reduce((sum, component) => sum + component.value, 0),
    outcome: resolved ? 1 : 0,
    components,
  }
}

/** Grows with the fill level of the context, however many turns filled it. @throws LonghaulError `Config.Invalid` */
function contextPenalty({ rule, contextTokens }: { rule: ContextPenaltyRule; contextTokens: number | null }): number {
  if (contextTokens === null) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected a count of context tokens for reward.contextPenalty, but the policy server reported none',
    })
  }
  return linearPenalty(rule, contextTokens)
}

/** R_len, eq. 4: 0 up to `start`, falling linearly to `min` at `end` and never below it. @throws LonghaulError `Config.Invalid` */
export function turnPenalty({ rule, turns }: { rule: TurnPenaltyRule; turns: number }): number {
  const { start, end } = rule
  if (end <= start) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected the turn penalty to start before the turn limit',
      details: { start, end },
    })
  }
  return linearPenalty(rule, turns)
}

function linearPenalty({ start, end, min }: TurnPenaltyRule, at: number): number {
  if (at <= start || min === 0) return 0
  return (Math.abs(min) * (start - Math.min(at, end))) / (end - start)
}
