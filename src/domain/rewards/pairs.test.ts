import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GroupMember } from './group-selection.ts'
import { pairMembers } from './pairs.ts'

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
