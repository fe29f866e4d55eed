import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { VerdictKind } from '../../contracts/episodes.types.ts'
import { compareVerdicts, type RejudgedPatch } from './compare-verdicts.ts'

const patch = (taskId: string, before: VerdictKind | null, kind: VerdictKind): RejudgedPatch => ({
  taskId,
  repo: `repo of ${taskId}`,
  before,
  kind,
})

test('patches that are graded again are compared in pairs', () => {
  const gained = ['a', 'b', 'c', 'd', 'e', 'f'].map((taskId) => patch(taskId, 'unresolved', 'resolved'))
  const kept = ['k', 'l'].map((taskId) => patch(taskId, 'resolved', 'resolved'))
  const compared = compareVerdicts([...gained, ...kept])
  const { difference, mcnemar, better, worse, same, before, after, flips } = compared?.comparison ?? assert.fail()
  assert.deepEqual([before.mean, after.mean, difference.mean], [0.25, 1, 0.75])
  assert.deepEqual([better, worse, same, flips.length], [6, 0, 2, 6])
  // Six to none: 2 / 2⁶.
  assert.ok(Math.abs((mcnemar?.exact ?? 0) - 1 / 32) < 1e-12)
  const { low, high } = difference.interval ?? assert.fail()
  assert.ok(low > 0 && low < 0.75 && high >= 0.75, `${low} to ${high}`)
})

test('several patches of a task are one observation, and one without a verdict on a side is left out on both', () => {
  const compared = compareVerdicts([
    patch('a', 'resolved', 'unresolved'),
    patch('a', 'resolved', 'resolved'),
    patch('a', 'resolved', 'could-not-grade'),
    patch('b', 'unresolved', 'unresolved'),
    patch('b', null, 'resolved'),
    patch('c', 'could-not-grade', 'resolved'),
  ])
  assert.deepEqual([compared?.patches, compared?.unpaired], [3, 3])
  const { difference, mcnemar, flips } = compared?.comparison ?? assert.fail()
  // a: 1 of 2 against 2 of 2; b: 0 against 0; c is nowhere.
  assert.deepEqual([difference.mean, difference.tasks, mcnemar], [-0.25, 2, null])
  assert.deepEqual(
    flips.map(({ taskId, before, after }) => [taskId, before, after]),
    [['a', { resolved: 2, attempts: 2 }, { resolved: 1, attempts: 2 }]],
  )
  assert.equal(compareVerdicts([patch('c', 'could-not-grade', 'resolved'), patch('d', null, 'resolved')]), null)
})

test('the interval clusters patches by repository', () => {
  const judged = (repoOf: (index: number) => string) => {
    const patches = Array.from({ length: 40 }, (_, index): RejudgedPatch => {
      return {
        taskId: `t${index}`,
        repo: repoOf(index),
        before: 'unresolved',
        kind: index < 20 ? 'resolved' : 'unresolved',
      }
    })
    return compareVerdicts(patches)?.comparison.difference.interval ?? assert.fail()
  }
  const apart = judged((index) => `r${index}`)
  const alike = judged((index) => `r${Math.floor(index / 10)}`)
  assert.ok(alike.high - alike.low > 1.5 * (apart.high - apart.low))
})
