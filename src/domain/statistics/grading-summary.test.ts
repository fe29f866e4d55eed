import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { VerdictKind } from '../../contracts/episodes.types.ts'
import { scoreGrading } from './grading-summary.ts'

const patch = (taskId: string, kind: VerdictKind) => ({ taskId, repo: 'r', kind })

test('patches without a verdict are not in the graded score and are unresolved in the official one', () => {
  const { graded, official } = scoreGrading(
    [patch('a', 'resolved'), patch('b', 'unresolved'), patch('c', 'could-not-grade')],
    [],
  )
  assert.deepEqual([graded?.mean, graded?.tasks, graded?.attempts], [0.5, 2, 2])
  assert.deepEqual([official?.tasks, official?.attempts], [3, 3])
  assert.ok(Math.abs((official?.mean ?? 0) - 1 / 3) < 1e-12)
})

test('a task without a patch counts as unresolved, in the official score only', () => {
  const { graded, official } = scoreGrading([patch('a', 'resolved')], [{ taskId: 'missing', repo: 'r' }])
  assert.deepEqual([graded?.mean, graded?.tasks], [1, 1])
  assert.deepEqual([official?.mean, official?.tasks], [0.5, 2])
})

test('several patches of one task are its attempts: the task counts once, and errors are over tasks', () => {
  const { graded } = scoreGrading([patch('a', 'resolved'), patch('a', 'unresolved'), patch('b', 'unresolved')], [])
  // Rates ½ and 0: mean ¼, sd √(2·(¼)²) = ¼·√2, over √2 = ¼.
  assert.deepEqual([graded?.mean, graded?.tasks, graded?.attempts], [0.25, 2, 3])
  assert.ok(Math.abs((graded?.sem ?? 0) - 0.25) < 1e-12)
})

test('the interval contains the mean and is wider for tasks of one repository than of many', () => {
  const judged = (repoOf: (index: number) => string) =>
    scoreGrading(
      Array.from({ length: 40 }, (_, index) => ({
        taskId: `t${index}`,
        repo: repoOf(index),
        kind: index < 20 ? ('resolved' as const) : ('unresolved' as const),
      })),
      [],
    ).graded?.interval ?? assert.fail()
  const apart = judged((index) => `r${index}`)
  // Four repositories that went all one way: little more than four observations.
  const alike = judged((index) => `r${Math.floor(index / 10)}`)
  assert.ok(apart.low < 0.5 && 0.5 < apart.high)
  assert.ok(alike.high - alike.low > 1.5 * (apart.high - apart.low))
})

test('an ungraded run has no score instead of a score of 0', () => {
  assert.deepEqual(scoreGrading([], []), { graded: null, official: null })
  assert.equal(scoreGrading([patch('a', 'could-not-grade')], []).graded, null)
})

test('each missing task has its own weight', () => {
  const missing = ['m1', 'm2'].map((taskId) => ({ taskId, repo: 'r' }))
  const { official } = scoreGrading([patch('a', 'resolved'), patch('b', 'resolved')], missing)
  assert.deepEqual([official?.mean, official?.tasks], [0.5, 4])
})
