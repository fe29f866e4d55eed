import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ScoredGroup } from '../ledger/episode-fates.ts'
import { selectExperts } from './experts.ts'

function group(taskId: string, outcomes: (0 | 1)[], dropped: ScoredGroup['dropped'] = null): ScoredGroup {
  const members = outcomes.map((outcome, index) => ({ episode: `${taskId}/${index}`, outcome, reward: outcome }))
  return { taskId, members, infra: 0, dropped, std: 0 }
}

const kept = (taskId: string, episode: string) =>
  ({ taskId, fate: { kind: 'train', episode, advantage: null } }) as const

test('adds experts where the policy solved fewer than the bound, also to a dropped group', () => {
  const groups = [group('a', [0, 0], 'outcome'), group('b', [1, 0]), group('c', [1, 1], 'outcome')]
  const fineTuned = ['a', 'b', 'c'].map((taskId) => kept(taskId, `rft/${taskId}`))
  const chosen = (below: number) => selectExperts({ groups, fineTuned, rule: { below } }).map(({ taskId }) => taskId)
  assert.deepEqual(chosen(1), ['a'])
  assert.deepEqual(chosen(2), ['a', 'b'])
  assert.deepEqual(chosen(3), ['a', 'b', 'c'])
})

test('experts are only episodes that fine-tuning kept of the same task, in order, and none join too small a group', () => {
  const fineTuned = [
    kept('a', 'first'),
    { taskId: 'a', fate: { kind: 'dropped', episode: 'failed', reason: 'unresolved' } } as const,
    kept('a', 'second'),
  ]
  const rule = { below: 1 }
  assert.deepEqual(selectExperts({ groups: [group('a', [0, 0]), group('b', [0, 0])], fineTuned, rule }), [
    { taskId: 'a', episodes: ['first', 'second'] },
  ])
  assert.deepEqual(selectExperts({ groups: [group('a', [0], 'few')], fineTuned, rule }), [])
})
