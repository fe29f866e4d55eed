import assert from 'node:assert/strict'
import { test } from 'node:test'

import { containerName } from './labels.ts'

test('plain ids with slashes: readable, no hash', () => {
  assert.equal(containerName(['demo', 'dapo-1/0003/task_1/07', 'agent', 2]), 'lh-demo-dapo-1-0003-task_1-07-agent-2')
})

test('characters that an engine refuses: replaced, and told apart by a hash', () => {
  const [one, two] = [containerName(['a b', 'x']), containerName(['a:b', 'x'])]
  assert.match(one, /^lh-a_b-x-[0-9a-f]{12}$/)
  assert.notEqual(one, two)
})

test('long ids: cut to 120 characters, still different and still the same each time', () => {
  const long = 'a'.repeat(200)
  const name = containerName([long, 1])
  assert.equal(name.length, 120)
  assert.equal(name, containerName([long, 1]))
  assert.notEqual(name, containerName([long, 2]))
})
