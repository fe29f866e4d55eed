import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stepAdvantages, stepRewards } from './step-rewards.ts'

const clean = { formatError: false, stopped: false }

test('a turn is penalized for a reply without a command and for a command that a limit ended', () => {
  const turns = [clean, { formatError: true, stopped: false }, { formatError: false, stopped: true }]
  assert.deepEqual(stepRewards(turns, { weight: 1, formatError: -0.25, stoppedCommand: -0.5 }), [0, -0.25, -0.5])
})

test('compares a turn with the same turn of its siblings by the sum of its own and later rewards', () => {
  // Returns: −1 −1 0, 0 0, −0.5. First turn: mean −0.5; second: mean −0.5 of the two that have one; third: alone.
  const rewards = [[0, -1, 0], [0, 0], [-0.5]]
  assert.deepEqual(stepAdvantages({ rewards, delta: 1e-6, scale: 'none' }), [[-0.5, -0.5, 0], [0.5, 0.5], [0]])
  // Deviations with n − 1: √(0.25 + 0.25 + 0) / √2 = 0.5, and √0.5.
  const scaled = stepAdvantages({ rewards, delta: 0, scale: 'groupStd' })
  const expected = [[-1, -Math.SQRT1_2, 0], [1, Math.SQRT1_2], [0]]
  for (const [member, values] of expected.entries()) {
    for (const [turn, value] of values.entries()) {
      assert.ok(Math.abs((scaled[member]?.[turn] ?? Number.NaN) - value) < 1e-12, `${member}, ${turn}`)
    }
  }
})

test('siblings with equal rewards, or one alone, have no advantage', () => {
  const rewards = [
    [-0.1, -0.1],
    [-0.1, -0.1, 0],
  ]
  assert.deepEqual(stepAdvantages({ rewards, delta: 1e-6, scale: 'groupStd' }), [
    [0, 0],
    [0, 0, 0],
  ])
  assert.deepEqual(stepAdvantages({ rewards: [[-3, -2]], delta: 1e-6, scale: 'groupStd' }), [[0, 0]])
  assert.deepEqual(stepAdvantages({ rewards: [[], []], delta: 1e-6, scale: 'groupStd' }), [[], []])
})

test('siblings whose returns differ only by rounding have no advantage', () => {
  // −0.1 − 0.2 is −0.30000000000000004.
  const rewards = [
    [-0.3, 0],
    [-0.1, -0.2],
  ]
  assert.deepEqual(stepAdvantages({ rewards, delta: 0, scale: 'none' }), [
    [0, 0.1],
    [0, -0.1],
  ])
})

test('returns that differ by a billionth are told apart', () => {
  assert.deepEqual(stepAdvantages({ rewards: [[0], [-1e-9]], delta: 0, scale: 'none' }), [[5e-10], [-5e-10]])
})
