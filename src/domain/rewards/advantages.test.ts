import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { groupAdvantages } from './advantages.ts'
import { mean, standardDeviation } from '../statistics/moments.ts'

test('the paper’s group of ten has mean −0.36, deviation 0.7306 and its ten advantages', () => {
  const rewards = [1, 0.6, 0, 0, -0.5, -0.7, -1, -1, -1, -1]
  assert.ok(Math.abs(mean(rewards) + 0.36) < 1e-12)
  // Squared distances: 1.8496 + 0.9216 + 2·0.1296 + 0.0196 + 0.1156 + 4·0.4096 = 4.804; / 9 = 0.53378; root 0.7306.
  assert.ok(Math.abs(standardDeviation(rewards) - 0.7306) < 5e-5)
  const expected = [1.8615, 1.314, 0.4927, 0.4927, -0.1916, -0.4654, -0.876, -0.876, -0.876, -0.876]
  for (const [index, advantage] of groupAdvantages({ rewards, delta: 1e-6 }).entries()) {
    assert.ok(Math.abs(advantage - (expected[index] ?? Number.NaN)) < 5e-5, `member ${index}: ${advantage}`)
  }
})

test('equal rewards give exactly zero, also when their mean is rounded', () => {
  assert.deepEqual(groupAdvantages({ rewards: [0.1, 0.1, 0.1], delta: 1e-6 }), [0, 0, 0])
})

test('without the standard deviation the advantages are rewards minus their mean', () => {
  // Mean 0.4375.
  assert.deepEqual(
    groupAdvantages({ rewards: [1, 1, -0.25, 0], delta: 1e-6, scale: 'none' }),
    [0.5625, 0.5625, -0.6875, -0.4375],
  )
  assert.deepEqual(groupAdvantages({ rewards: [0.1, 0.1, 0.1], delta: 1e-6, scale: 'none' }), [0, 0, 0])
})

test('refuses a group of a single episode', () => {
  assert.throws(() => groupAdvantages({ rewards: [1], delta: 1e-6 }), {
    code: 'Group.TooSmall',
    details: { valid: 1 },
  })
})

test('advantages of any group sum to zero, keep the order of the rewards, and ignore a shift', () => {
  const reward = fc.integer({ min: -200, max: 200 }).map((value) => value / 100)
  fc.assert(
    fc.property(
      fc.array(reward, { minLength: 2, maxLength: 16 }),
      fc.integer({ min: -5, max: 5 }),
      (rewards, shift) => {
        const advantages = groupAdvantages({ rewards, delta: 1e-6 })
        assert.ok(Math.abs(mean(advantages)) < 1e-9)
        const shifted = groupAdvantages({ rewards: rewards.map((value) => value + shift), delta: 1e-6 })
        for (const [index, advantage] of advantages.entries()) {
          assert.ok(Math.abs(advantage - (shifted[index] ?? Number.NaN)) < 1e-6)
          for (const [other, otherAdvantage] of advantages.entries()) {
            const order = (rewards[index] ?? 0) - (rewards[other] ?? 0)
            assert.ok(order * (advantage - otherAdvantage) >= 0)
          }
        }
      },
    ),
  )
})

test('delta is added to the deviation, which limits a group of almost equal rewards', () => {
  // Mean ½, sd 1/√2·1 = 0.7071; with a delta of 0.2929 the divisor is 1.
  const [high, low] = groupAdvantages({ rewards: [1, 0], delta: 1 - Math.SQRT1_2 })
  assert.ok(Math.abs((high ?? 0) - 0.5) < 1e-12 && Math.abs((low ?? 0) + 0.5) < 1e-12)
})
