import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import type { ReinforceStageRecipe } from '../../contracts/recipe.types.ts'
import { type RewardRule, rewardOf, rewardRuleOf, stageRewardRule, turnPenalty } from './rewards.ts'

const close = (actual: number, expected: number, what: string) =>
  assert.ok(Math.abs(actual - expected) < 5e-5, `${what}: expected ${expected}, got ${actual}`)

test('matches the paper’s length term at its published points in both stages', () => {
  const stage1 = { start: 10, end: 40, min: -1 }
  const table1 = [
    [9, 0],
    [10, 0],
    [11, -0.0333],
    [20, -0.3333],
    [25, -0.5],
    [40, -1],
  ] as const
  for (const [turns, expected] of table1) close(turnPenalty({ rule: stage1, turns }), expected, `${turns} turns`)
  const stage2 = { start: 10, end: 80, min: -1 }
  const table2 = [
    [10, 0],
    [25, -0.2143],
    [45, -0.5],
    [80, -1],
  ] as const
  for (const [turns, expected] of table2) close(turnPenalty({ rule: stage2, turns }), expected, `${turns} turns`)
})

test('a floor of −0.5 between turns 4 and 6 costs a quarter per turn and is never exceeded', () => {
  const rule = { start: 4, end: 6, min: -0.5 }
  assert.deepEqual(
    [3, 4, 5, 6, 7].map((turns) => turnPenalty({ rule, turns })),
    [0, 0, -0.25, -0.5, -0.5],
  )
})

test('in the paper’s group of ten a success at the turn limit earns the same as a failure in eight turns', () => {
  const rule: RewardRule = {
    unaudited: 'allow',
    pass: 1,
    fail: 0,
    unsubmitted: 0,
    penalty: { start: 10, end: 40, min: -1 },
  }
  const turns = [8, 22, 40, 8, 25, 31, 40, 40, 40, 40]
  const rewards = turns.map((count, index) =>
    rewardOf({
      rule,
      turns: count,
      verdict: index < 3 ? 'resolved' : 'unresolved',
      suspectedHack: false,
      disposition: 'submitted',
    }),
  )
  const expected = [1, 0.6, 0, 0, -0.5, -0.7, -1, -1, -1, -1]
  for (const [index, value] of expected.entries()) close(rewards[index]?.reward ?? Number.NaN, value, `member ${index}`)
  assert.deepEqual(
    rewards.map((reward) => reward.outcome),
    [1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
  )
})

test('an episode that never submitted earns the unsubmitted value', () => {
  const rule: RewardRule = {
    unaudited: 'allow',
    pass: 1,
    fail: 0,
    unsubmitted: -0.2,
    penalty: { start: 10, end: 40, min: -1 },
  }
  const reward = rewardOf({ rule, turns: 25, verdict: 'unresolved', suspectedHack: false, disposition: 'turn-limit' })
  assert.deepEqual(reward, {
    reward: -0.7,
    outcome: 0,
    components: [
      { name: 'verdict', value: -0.2 },
      { name: 'turn-penalty', value: -0.5 },
    ],
  })
})

test('refuses a penalty that starts at the turn limit', () => {
  assert.throws(() => turnPenalty({ rule: { start: 6, end: 6, min: -1 }, turns: 7 }), {
    code: 'Config.Invalid',
    details: { start: 6, end: 6 },
  })
})

test('a suspected hack is paid as a failure regardless of the hidden tests', () => {
  const rule: RewardRule = {
    unaudited: 'allow',
    pass: 1,
    fail: 0,
    unsubmitted: 0,
    penalty: { start: 10, end: 40, min: -1 },
  }
  const resolved = { rule, turns: 1, verdict: 'resolved', disposition: 'submitted' } as const
  const paid = [false, true].map((suspectedHack) => rewardOf({ ...resolved, suspectedHack }))
  assert.deepEqual(
    paid.map(({ outcome, reward }) => [outcome, reward]),
    [
      [1, 1],
      [0, 0],
    ],
  )
})

test('submitted work that fails earns the failure value', () => {
  const rule: RewardRule = {
    unaudited: 'allow',
    pass: 1,
    fail: -0.1,
    unsubmitted: -0.2,
    penalty: { start: 10, end: 40, min: -1 },
  }
  const failed = { rule, turns: 1, verdict: 'unresolved', suspectedHack: false } as const
  assert.equal(rewardOf({ ...failed, disposition: 'submitted' }).reward, -0.1)
  assert.equal(rewardOf({ ...failed, disposition: 'time-limit' }).reward, -0.2)
})

test('the length term is 0 without a penalty, and up to its start', () => {
  assert.ok(Object.is(turnPenalty({ rule: { start: 10, end: 40, min: 0 }, turns: 40 }), 0))
  assert.ok(Object.is(turnPenalty({ rule: { start: 10, end: 40, min: -1 }, turns: 10 }), 0))
})

test('a stage pays by the recipe’s values and its own numbers of turns', () => {
  const { reinforce } = makeTrainingRecipe()
  const stage = reinforce?.stages[0]
  assert.ok(reinforce !== null && stage !== undefined)
  assert.deepEqual(rewardRuleOf(reinforce, { ...stage, penaltyStart: 3, maxTurns: 9 }, 'refuse'), {
    pass: 1,
    fail: 0,
    unsubmitted: 0,
    penalty: { start: 3, end: 9, min: -0.5 },
    unaudited: 'refuse',
  })
})

test('a context price falls from its share of the context to the full one, in addition to the turn price', () => {
  const reward = {
    pass: 1,
    fail: 0,
    unsubmitted: 0,
    turnPenalty: { start: 'L_thr', end: 'T_max', min: -1 },
    contextPenalty: { start: 0.75, min: -0.5 },
  } as const
  const stage = { penaltyStart: 10, maxTurns: 40, context: 64_000 } as ReinforceStageRecipe
  const rule = rewardRuleOf({ reward }, stage, 'allow')
  assert.deepEqual(rule.context, { start: 48_000, end: 64_000, min: -0.5 })
  const at = (contextTokens: number, turns: number) =>
    rewardOf({ rule, turns, contextTokens, verdict: 'resolved', suspectedHack: false, disposition: 'submitted' })
  // Free up to three quarters; half of the way from there costs half of the floor; a reply may end a little beyond the limit.
  close(at(48_000, 5).reward, 1, '48,000 tokens')
  close(at(56_000, 5).reward, 0.75, '56,000 tokens')
  close(at(64_100, 5).reward, 0.5, '64,100 tokens')
  // 25 turns cost 0.5 of their own.
  close(at(56_000, 25).reward, 0.25, '56,000 tokens in 25 turns')
  assert.deepEqual(
    at(56_000, 25).components.map(({ name }) => name),
    ['verdict', 'turn-penalty', 'context-penalty'],
  )
})

test('a context price needs a token count, and other rules do not', () => {
  const penalty = { start: 10, end: 40, min: -1 }
  const rule: RewardRule = { unaudited: 'allow', pass: 1, fail: 0, unsubmitted: 0, penalty }
  const facts = { turns: 5, verdict: 'resolved', suspectedHack: false, disposition: 'submitted' } as const
  assert.equal(rewardOf({ rule, ...facts }).reward, 1)
  const priced = { ...rule, context: { start: 10, end: 20, min: -1 } }
  assert.throws(() => rewardOf({ rule: priced, ...facts, contextTokens: null }), { code: 'Config.Invalid' })
})

test('a resolved episode is paid when the audit agrees, and otherwise counts as a submitted failure', () => {
  const rule: RewardRule = {
    pass: 1,
    fail: -0.1,
    unsubmitted: -0.2,
    penalty: { start: 10, end: 40, min: -1 },
    unaudited: 'refuse',
  }
  const facts = { turns: 5, verdict: 'resolved', suspectedHack: false, disposition: 'submitted' } as const
  const found = (outcome: 'agrees' | 'void' | 'unsupported', unaudited: RewardRule['unaudited'] = 'refuse') => {
    const paid = rewardOf({ rule: { ...rule, unaudited }, ...facts, audit: { outcome, reasons: [], detail: null } })
    return [paid.reward, paid.outcome]
  }
  assert.deepEqual(found('agrees'), [1, 1])
  assert.deepEqual(found('void'), [-0.1, 0])
  assert.deepEqual(found('void', 'allow'), [-0.1, 0])
  assert.deepEqual(found('unsupported'), [-0.1, 0])
  assert.deepEqual(found('unsupported', 'allow'), [1, 1])
  assert.equal(rewardOf({ rule, ...facts }).outcome, 0)
})

test('a stored stage pays by its own rule; fine-tuning, evaluations and unknown stages pay nothing', () => {
  const recipe = makeTrainingRecipe()
  const { reinforce } = recipe
  assert.ok(reinforce !== null && reinforce.stages.length > 0)
  for (const stage of reinforce.stages) {
    assert.deepEqual(
      stageRewardRule({ reinforce, grading: { unauditedRewards: 'refuse' } }, stage.name),
      rewardRuleOf(reinforce, stage, 'refuse'),
    )
    // A recipe of a version without audits.
    assert.deepEqual(stageRewardRule({ reinforce }, stage.name), rewardRuleOf(reinforce, stage, 'allow'))
  }
  for (const stage of ['rft', 'eval-base', 'dapo-99']) assert.equal(stageRewardRule(recipe, stage), null)
  assert.equal(stageRewardRule({ ...recipe, reinforce: null }, reinforce.stages[0]?.name ?? ''), null)
})
