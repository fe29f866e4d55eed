import assert from 'node:assert/strict'
import { test } from 'node:test'
import { makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { pairTasks, toOutcomes } from './pair-tasks.ts'

const side = (...ids: string[]) => makeEvaluation({ tasks: ids.map((taskId) => ({ taskId, attempts: [1] })) }).tasks

test('orders pairs by their task ids for any order of either side', () => {
  const { shared } = pairTasks(side('c', 'a', 'b'), side('b', 'c', 'a'))
  assert.deepEqual(
    shared.map(([before, after]) => [before.taskId, after.taskId]),
    [
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c'],
    ],
  )
})

test('turns a pair into the outcomes of one task, clustered by its repository', () => {
  const [pair] = pairTasks(side('a'), side('a')).shared
  assert.ok(pair !== undefined)
  assert.deepEqual(toOutcomes(pair), { taskId: 'a', cluster: 'repo', before: [1], after: [1] })
})
