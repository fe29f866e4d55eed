import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import {
  type GroupMember,
  type GroupRule,
  groupAdvantages,
  groupRuleOf,
  pairMembers,
  selectGroup,
} from './group-selection.ts'
import { mean, standardDeviation } from '../statistics/statistics.ts'

const rule: GroupRule = { on: 'outcome', alsoZeroAdvantage: true, minGroupStd: 1e-3, minGroupSize: 4, delta: 1e-6 }
const makeGroup = (...values: [outcome: 0 | 1, reward: number][]): GroupMember[] =>
  values.map(([outcome, reward], index) => ({ episode: `e${index}`, outcome, reward }))

test('drops an all-failed group of different lengths by outcome and keeps it by shaped reward', () => {
  const members = makeGroup([0, 0], [0, -0.25], [0, -0.5], [0, -0.5])
  assert.equal(reasonOf(selectGroup({ members, rule })), 'outcome')
  const shaped = selectGroup({ members, rule: { ...rule, on: 'shaped' } })
  assert.equal(shaped.kind, 'kept')
})

test('fewer valid siblings than the minimum give the reason few, and a single one always does', () => {
  const three = makeGroup([1, 1], [0, 0], [0, 0])
  assert.equal(reasonOf(selectGroup({ members: three, rule })), 'few')
  assert.equal(reasonOf(selectGroup({ members: three.slice(0, 1), rule: { ...rule, minGroupSize: 1 } })), 'few')
  assert.equal(reasonOf(selectGroup({ members: [], rule: { ...rule, minGroupSize: 0 } })), 'few')
})

test('a group with mixed outcomes and equal shaped rewards has no spread', () => {
  // A success at the turn limit earns 1 − 1 = 0, like a failure in eight turns.
  const members = makeGroup([1, 0], [0, 0], [0, 0], [0, 0])
  assert.equal(reasonOf(selectGroup({ members, rule })), 'std')
  assert.equal(reasonOf(selectGroup({ members, rule: { ...rule, minGroupStd: 0 } })), 'std')
})

test('drops only the member at the mean of its group', () => {
  const selection = selectGroup({ members: makeGroup([1, 1], [1, 0.5], [0, 0.5], [0, 0]), rule })
  assert.ok(selection.kind === 'kept')
  assert.deepEqual(
    selection.members.map((member) => (member.kind === 'kept' ? Math.sign(member.advantage) : member.reason)),
    [1, 'zero-advantage', 'zero-advantage', -1],
  )
})

function reasonOf(selection: ReturnType<typeof selectGroup>): string | null {
  return selection.kind === 'dropped' ? selection.reason : null
}

test('keeps a group with exactly the minimum spread and drops one with a smaller spread', () => {
  // Rewards 1, 0, 1, 0: sd √(4·¼ / 3) = √⅓.
  const members = makeGroup([1, 1], [0, 0], [1, 1], [0, 0])
  const least = Math.sqrt(1 / 3)
  assert.equal(selectGroup({ members, rule: { ...rule, minGroupStd: least } }).kind, 'kept')
  const noisy = selectGroup({ members, rule: { ...rule, minGroupStd: 0.6 } })
  assert.deepEqual(noisy, { kind: 'dropped', reason: 'std', std: least })
})

test('drops an advantage of exactly 0, and with the switch also one near 0', () => {
  // Rewards 1, −1 and two within 1e-10 of their mean: advantages of about 1e-10.
  const members = makeGroup([1, 1], [0, -1], [0, 1e-10], [0, -1e-10])
  const reasons = (alsoZeroAdvantage: boolean) => {
    const selection = selectGroup({ members, rule: { ...rule, alsoZeroAdvantage } })
    return selection.kind === 'kept' ? selection.members.map(({ kind }) => kind) : []
  }
  assert.deepEqual(reasons(false), ['kept', 'kept', 'kept', 'kept'])
  assert.deepEqual(reasons(true), ['kept', 'kept', 'dropped', 'dropped'])
  const exact = selectGroup({
    members: makeGroup([1, 1], [0, -1], [0, 0], [0, 0]),
    rule: { ...rule, alsoZeroAdvantage: false },
  })
  assert.ok(exact.kind === 'kept')
  assert.deepEqual(exact.members[2], { kind: 'dropped', episode: 'e2', reason: 'zero-advantage' })
})

test('an advantage of exactly a hundred-millionth trains', () => {
  const members = makeGroup([1, 1], [0, -1], [0, 1e-8], [0, -1e-8])
  const selection = selectGroup({ members, rule: { ...rule, scale: 'none' } })
  assert.ok(selection.kind === 'kept')
  assert.deepEqual(selection.members[2], { kind: 'kept', episode: 'e2', advantage: 1e-8 })
})

test('reads the rule of a group from the recipe', () => {
  const { reinforce } = makeTrainingRecipe()
  assert.ok(reinforce !== null)
  assert.deepEqual(groupRuleOf({ ...reinforce, minGroupSize: 3 }), {
    on: 'shaped',
    alsoZeroAdvantage: true,
    minGroupStd: 1e-3,
    minGroupSize: 3,
    delta: 1e-6,
  })
})

test('the rule has the overlong filter only when the recipe has it', () => {
  const { reinforce } = makeTrainingRecipe()
  assert.ok(reinforce !== null)
  assert.equal('overlong' in groupRuleOf(reinforce), false)
  assert.equal(groupRuleOf({ ...reinforce, overlong: 'filter' }).overlong, 'filter')
})

test('the rule leaves out the deviation only when the recipe does', () => {
  const { reinforce } = makeTrainingRecipe()
  assert.ok(reinforce !== null)
  assert.equal('scale' in groupRuleOf(reinforce), false)
  const advantage = { ...reinforce.advantage, scale: 'none' as const }
  assert.equal(groupRuleOf({ ...reinforce, advantage }).scale, 'none')
})

test('the rule makes pairs only for preference optimisation', () => {
  const { reinforce } = makeTrainingRecipe()
  assert.ok(reinforce !== null)
  assert.equal('pairs' in groupRuleOf(reinforce), false)
  const loss = { ...reinforce.loss, algorithm: 'dpo' as const }
  assert.equal(groupRuleOf({ ...reinforce, loss }).pairs, true)
})

const member = (episode: string, outcome: 0 | 1, reward: number): GroupMember => ({ episode, outcome, reward })

test('pairs the best success with the worst failure and leaves the rest unpaired', () => {
  const members = [
    member('slow', 1, 0.5),
    member('long', 0, 0.25),
    member('cut', 0, -0.5),
    member('quick', 1, 1),
    member('submitted', 0, 0),
    member('other', 0, 0),
  ]
  assert.deepEqual(pairMembers(members), [
    { chosen: 'quick', rejected: 'cut' },
    { chosen: 'slow', rejected: 'submitted' },
  ])
  assert.deepEqual(pairMembers(members.slice(0, 1)), [])
  assert.deepEqual(pairMembers([]), [])
})

test('the paper’s group of ten has mean −0.36, deviation 0.7306 and its ten advantages', () => {
  const rewards = [1, 0.6, 0, 0, -0.5, -0.7, -1, -1, -1, -1]
  assert.ok(Math.abs(mean(rewards) + 0.36) < 1e-12)
  // Squared distances: 1.8496 + 0.9216 + 2·0.1296 + 0.0196 + 0.1156 + 4·0.4096 = 4.804; / 9 = 0.53378; root 0.7306.
  assert.ok(Math.abs(standardDeviation(rewards) - 0.7306) < 5e-5)
  const expected = [1.8615, 1.314, 0.4927, 0.4927, -0.1916, -0.4654, -0.876, -0.876, -0.876, -0.876]
  for (const [index, advantage] of groupAdvantages({ rewards, delta: 1e-6 }).entries()) {
    assert.ok(Math.abs(advantage - (expected[index] ?? Number.NaN)) < 5e-5, `member ${index}: ${advantage}`)
  }
})

test('equal rewards give exactly zero, also when their mean is rounded', () => {
  assert.deepEqual(groupAdvantages({ rewards: [0.1, 0.1, 0.1], delta: 1e-6 }), [0, 0, 0])
})

test('without the standard deviation the advantages are rewards minus their mean', () => {
  // Mean 0.4375.
  assert.deepEqual(
    groupAdvantages({ rewards: [1, 1, -0.25, 0], delta: 1e-6, scale: 'none' }),
    [0.5625, 0.5625, -0.6875, -0.4375],
  )
  assert.deepEqual(groupAdvantages({ rewards: [0.1, 0.1, 0.1], delta: 1e-6, scale: 'none' }), [0, 0, 0])
})

test('refuses a group of a single episode', () => {
  assert.throws(() => groupAdvantages({ rewards: [1], delta: 1e-6 }), {
    code: 'Group.TooSmall',
    details: { valid: 1 },
  })
})

test('advantages of any group sum to zero, keep the order of the rewards, and ignore a shift', () => {
  const reward = fc.integer({ min: -200, max: 200 }).map((value) => value / 100)
  fc.assert(
    fc.property(
      fc.array(reward, { minLength: 2, maxLength: 16 }),
      fc.integer({ min: -5, max: 5 }),
      (rewards, shift) => {
        const advantages = groupAdvantages({ rewards, delta: 1e-6 })
        assert.ok(Math.abs(mean(advantages)) < 1e-9)
        const shifted = groupAdvantages({ rewards: rewards.map((value) => value + shift), delta: 1e-6 })
        for (const [index, advantage] of advantages.entries()) {
          assert.ok(Math.abs(advantage - (shifted[index] ?? Number.NaN)) < 1e-6)
          for (const [other, otherAdvantage] of advantages.entries()) {
            const order = (rewards[index] ?? 0) - (rewards[other] ?? 0)
            assert.ok(order * (advantage - otherAdvantage) >= 0)
          }
        }
      },
    ),
  )
})

test('delta is added to the deviation, which limits a group of almost equal rewards', () => {
  // Mean ½, sd 1/√2·1 = 0.7071; with a delta of 0.2929 the divisor is 1.
  const [high, low] = groupAdvantages({ rewards: [1, 0], delta: 1 - Math.SQRT1_2 })
  assert.ok(Math.abs((high ?? 0) - 0.5) < 1e-12 && Math.abs((low ?? 0) + 0.5) < 1e-12)
})
