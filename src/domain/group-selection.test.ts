import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type GroupMember, type GroupRule, selectGroup } from './group-selection.ts'

const rule: GroupRule = { on: 'outcome', alsoZeroAdvantage: true, minGroupStd: 1e-3, minGroupSize: 4, delta: 1e-6 }
const makeGroup = (...values: [outcome: 0 | 1, reward: number][]): GroupMember[] =>
  values.map(([outcome, reward], index) => ({ episode: `e${index}`, outcome, reward }))

test('an all-failed group of differing lengths is dropped by outcome and kept by shaped reward', () => {
  const members = makeGroup([0, 0], [0, -0.25], [0, -0.5], [0, -0.5])
  assert.equal(reasonOf(selectGroup({ members, rule })), 'outcome')
  const shaped = selectGroup({ members, rule: { ...rule, on: 'shaped' } })
  assert.equal(shaped.kind, 'kept')
})

test('fewer valid siblings than the minimum: few, and a singleton is few whatever the minimum says', () => {
  const three = makeGroup([1, 1], [0, 0], [0, 0])
  assert.equal(reasonOf(selectGroup({ members: three, rule })), 'few')
  assert.equal(reasonOf(selectGroup({ members: three.slice(0, 1), rule: { ...rule, minGroupSize: 1 } })), 'few')
  assert.equal(reasonOf(selectGroup({ members: [], rule: { ...rule, minGroupSize: 0 } })), 'few')
})

test('mixed outcomes whose shaped rewards agree: no spread to learn from', () => {
  // A success at the turn limit earns 1 − 1 = 0, like a failure in eight turns.
  const members = makeGroup([1, 0], [0, 0], [0, 0], [0, 0])
  assert.equal(reasonOf(selectGroup({ members, rule })), 'std')
  assert.equal(reasonOf(selectGroup({ members, rule: { ...rule, minGroupStd: 0 } })), 'std')
})

test('a member at the mean of its group is dropped alone', () => {
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
