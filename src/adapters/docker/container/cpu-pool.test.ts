import assert from 'node:assert/strict'
import { test } from 'node:test'

import { createCpuPool } from './cpu-pool.ts'

test('spreads containers of one processor, and reuses a released one next', () => {
  const pool = createCpuPool({ cpus: 3 })
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((name) => pool.take(name, 1)),
    ['0', '1', '2', '0'],
  )
  pool.give('b')
  assert.equal(pool.take('e', 1), '1')
})

test('rounds a fraction up to a whole processor, and gives all of them to a larger request', () => {
  const pool = createCpuPool({ cpus: 2 })
  assert.equal(pool.take('half', 0.5), '0')
  assert.equal(pool.take('greedy', 64), '0,1')
  assert.equal(pool.take('one and a half', 1.5), '0,1')
})

test('a name that asks again keeps its processors, and an adopted one counts', () => {
  const pool = createCpuPool({ cpus: 2 })
  assert.equal(pool.take('a', 1), '0')
  pool.keep('adopted', '1')
  assert.equal(pool.take('a', 1), '0')
  assert.equal(pool.take('b', 1), '0')
  assert.equal(pool.take('c', 1), '1')
})
