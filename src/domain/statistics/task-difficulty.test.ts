import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeRecord } from '../../../test/support/episode-records.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { UnauditedRewards } from '../../contracts/recipe.types.ts'
import { curate, mergeAttempts, taskRecordsOf } from './task-difficulty.ts'

const played = (fields: Partial<EpisodeRecord>, rowHash = 'row', unaudited: UnauditedRewards = 'allow') => ({
  record: makeRecord(fields),
  rowHash,
  unaudited,
})

test('merges repeats across runs, iterations and indices, and counts the same episode once', () => {
  const attempts = [
    played({ run: 'a', index: 0, verdict: 'resolved' }),
    played({ run: 'a', index: 1 }),
    played({ run: 'a', iteration: 2, index: 0, verdict: 'resolved' }),
    played({ run: 'b', index: 0, policy: 'v000001-bbbbbbbb' }),
    played({ run: 'b', index: 1, disposition: 'infra', verdict: null }),
    played({ run: 'b', index: 2, verdict: 'could-not-grade' }),
  ]
  const merged = mergeAttempts([...attempts, ...attempts])
  assert.deepEqual(
    merged.map(({ interval: _interval, ...rest }) => rest),
    [
      {
        taskId: 't',
        rowHash: 'row',
        attempts: 4,
        resolved: 2,
        rate: 0.5,
        lost: 2,
        policies: ['v000000-aaaaaaaa', 'v000001-bbbbbbbb'],
        runs: ['a', 'b'],
      },
    ],
  )
  // Wilson for 2 of 4: 0.15 to 0.85.
  assert.deepEqual([merged[0]?.interval.low.toFixed(2), merged[0]?.interval.high.toFixed(2)], ['0.15', '0.85'])
})

test('a suspected hack is an attempt but no solution', () => {
  const records = [
    makeRecord({ verdict: 'resolved', suspectedHack: true, signs: ['conftest'] }),
    makeRecord({ index: 1 }),
  ]
  assert.deepEqual(taskRecordsOf(records, 'allow'), [{ taskId: 't', resolved: 0, attempts: 2 }])
})

test('a task without a graded attempt has the whole range as interval and is kept', () => {
  const [task] = curate(mergeAttempts([played({ disposition: 'infra', verdict: null })]), {
    dropSuccessAtLeast: 2 / 3,
    dropNeverSolved: true,
    unseen: 'keep',
  })
  assert.deepEqual([task?.interval, task?.decision], [{ low: 0, high: 1 }, 'kept'])
})

test('the paper’s rule drops tasks solved in two thirds or never, and judges each row of an id separately', () => {
  const of = (taskId: string, verdicts: ('resolved' | 'unresolved')[], rowHash = 'row') =>
    verdicts.map((verdict, index) => played({ taskId, index, iteration: rowHash === 'row' ? 1 : 2, verdict }, rowHash))
  const tasks = mergeAttempts([
    ...of('easy', ['resolved', 'resolved', 'unresolved']),
    ...of('hard', ['unresolved', 'unresolved']),
    ...of('right', ['resolved', 'unresolved']),
    ...of('right', ['unresolved'], 'other row'),
  ])
  const rule = { dropSuccessAtLeast: 0.6667, dropNeverSolved: true, unseen: 'keep' as const }
  assert.deepEqual(
    curate(tasks, rule).map(({ taskId, rowHash, decision }) => [taskId, rowHash, decision]),
    [
      ['easy', 'row', 'solved-often'],
      ['hard', 'row', 'never-solved'],
      ['right', 'other row', 'never-solved'],
      ['right', 'row', 'kept'],
    ],
  )
})

test('names each policy and run of a task once, in order of text', () => {
  const [task] = mergeAttempts([
    played({ run: 'z', policy: 'v000002-cccccccc' }),
    played({ run: 'a', policy: 'v000001-bbbbbbbb' }),
    played({ run: 'z', index: 1, policy: 'v000001-bbbbbbbb' }),
  ])
  assert.deepEqual(
    [task?.policies, task?.runs],
    [
      ['v000001-bbbbbbbb', 'v000002-cccccccc'],
      ['a', 'z'],
    ],
  )
})

test('a task without a graded attempt has the rate 0', () => {
  const [task] = mergeAttempts([played({ disposition: 'infra', verdict: null })])
  assert.deepEqual([task?.attempts, task?.rate, task?.lost], [0, 0, 1])
})

test('an unpaid success is an attempt but no solution, by the rule of its own recipe', () => {
  const unsupported = { audit: { outcome: 'unsupported' as const, reasons: [], detail: null } }
  const [task] = mergeAttempts([
    played({ index: 0, verdict: 'resolved', ...unsupported }, 'row', 'allow'),
    played({ index: 1, verdict: 'resolved', ...unsupported }, 'row', 'refuse'),
    played({ index: 2, verdict: 'resolved' }, 'row', 'refuse'),
  ])
  assert.deepEqual([task?.resolved, task?.attempts], [1, 3])
  const agreed = makeRecord({ verdict: 'resolved', audit: { outcome: 'agrees', reasons: [], detail: null } })
  assert.deepEqual(taskRecordsOf([agreed], 'refuse'), [{ taskId: 't', resolved: 1, attempts: 1 }])
  const without = makeRecord({ verdict: 'resolved' })
  assert.deepEqual(taskRecordsOf([without], 'refuse'), [{ taskId: 't', resolved: 0, attempts: 1 }])
})
