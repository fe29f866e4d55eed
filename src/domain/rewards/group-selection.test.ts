import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { type GroupMember, type GroupRule, groupRuleOf, selectGroup } from './group-selection.ts'

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
