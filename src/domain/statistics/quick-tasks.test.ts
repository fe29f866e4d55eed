import assert from 'node:assert/strict'
import { test } from 'node:test'
import { onlyQuick } from './quick-tasks.ts'

const tasks = ['a', 'b', 'c'].map((taskId) => ({ taskId }))

test('a recipe without a quick list plays every task, and one with a list only those that the suite has', () => {
  assert.deepEqual(onlyQuick(tasks, null), tasks)
  assert.deepEqual(onlyQuick(tasks, undefined), tasks)
  assert.deepEqual(onlyQuick(tasks, ['c', 'a', 'elsewhere']), [{ taskId: 'a' }, { taskId: 'c' }])
  assert.deepEqual(onlyQuick(tasks, []), [])
})

test('returns a new list', () => {
  assert.notEqual(onlyQuick(tasks, null), tasks)
})
