import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mean, standardDeviation, standardError } from './moments.ts'

test('no value, or a single one, has no spread, and no value has the mean 0', () => {
  assert.deepEqual([mean([]), standardDeviation([]), standardError([])], [0, 0, 0])
  assert.deepEqual([mean([3]), standardDeviation([3]), standardError([3])], [3, 0, 0])
})

test('divides by n − 1 for two values', () => {
  // Mean 3, squares 1 + 1 over 1: √2, and over √2 for the mean.
  assert.equal(mean([2, 4]), 3)
  assert.ok(Math.abs(standardDeviation([2, 4]) - Math.SQRT2) < 1e-15)
  assert.ok(Math.abs(standardError([2, 4]) - 1) < 1e-15)
})
