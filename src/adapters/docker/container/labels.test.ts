import assert from 'node:assert/strict'
import { test } from 'node:test'

import { containerName } from './labels.ts'

test('keeps plain ids with slashes readable and without a hash', () => {
  assert.equal(containerName(['demo', 'dapo-1/0003/task_1/07', 'agent', 2]), 'lh-demo-dapo-1-0003-task_1-07-agent-2')
})

test('replaces characters that an engine refuses and keeps such names distinct by a hash', () => {
  const [one, two] = [containerName(['a b', 'x']), containerName(['a:b', 'x'])]
  assert.match(one, /^lh-a_b-x-[0-9a-f]{12}$/)
  assert.notEqual(one, two)
})

test('cuts long ids to 120 characters and keeps them distinct and stable', () => {
  const long = 'a'.repeat(200)
  const name = containerName([long, 1])
  assert.equal(name.length, 120)
  assert.equal(name, containerName([long, 1]))
  assert.notEqual(name, containerName([long, 2]))
})
