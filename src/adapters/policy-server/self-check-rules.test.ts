import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLevel, judgeReach, judgeSamples, judgeSlopes, REACH_DRAWS } from './self-check-rules.ts'

test('accepts samples with their own log-probabilities, and detects a filter by a constant excess in the noise', () => {
  const noise = [0.008, -0.008, 0.005, -0.005]
  const pairs = (excess: number) => noise.map((one): [number, number] => [-1 + one + excess, -1])
  assert.equal(judgeSamples({ pairs: pairs(0), tolerance: 0.02 }).problem, null)
  // Renormalising over 99 % of the mass adds -ln 0.99 = 0.01 to everything: below the median's limit, above a quarter of it.
  const filtered = judgeSamples({ pairs: pairs(0.01), tolerance: 0.02 })
  assert.ok(filtered.figures.medianDifference <= 0.02)
  assert.match(filtered.problem ?? '', /filter/)
})

test('reports missing samples and non-finite values', () => {
  assert.notEqual(judgeSamples({ pairs: [], tolerance: 1 }).problem, null)
  assert.notEqual(judgeSamples({ pairs: [[Number.NaN, -1]], tolerance: 1 }).problem, null)
  assert.notEqual(judgeSamples({ pairs: [[-1, Number.NEGATIVE_INFINITY]], tolerance: 1 }).problem, null)
})

test('differences between two tokens double at temperature 0.5, and an unchanged difference shows raw values', () => {
  // log p = -1 and -3; at T = 0.5: -2 - z and -6 - z.
  const right = [
    { told: -2 - 0.1, scored: -1 },
    { told: -6 - 0.1, scored: -3 },
  ]
  assert.equal(judgeSlopes({ draws: right, temperature: 0.5, tolerance: 1e-3 }).kind, 'right')
  const raw = right.map(({ scored }) => ({ told: scored, scored }))
  const judged = judgeSlopes({ draws: raw, temperature: 0.5, tolerance: 0.02 })
  assert.deepEqual(judged, { kind: 'wrong', draws: 2, slopeError: 2 })
})

test('one draw, or equally likely draws, prove nothing about the temperature', () => {
  const one = judgeSlopes({ draws: [{ told: 0, scored: 0 }], temperature: 0.5, tolerance: 1e-3 })
  assert.deepEqual(one, { kind: 'untold', draws: 1, slopeError: null })
  const alike = [
    { told: -1.2, scored: -1 },
    { told: -1.2, scored: -1 },
  ]
  assert.equal(judgeSlopes({ draws: alike, temperature: 0.5, tolerance: 1e-3 }).kind, 'untold')
})

test('draws from half of the vocabulary reach half of it, whatever is reported for the other half', () => {
  // Four tokens, 40, 40, 10 and 10 %: of ten draws 1/p adds up to 4 · 2.5 + 4 · 2.5 + 10 + 10 = 40, four tokens a draw.
  const whole = [0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.1, 0.1].map(Math.log)
  const told = Array.from({ length: REACH_DRAWS }, (_, at) => whole[at % 10] ?? Number.NaN)
  const flat = Array.from({ length: 64 }, () => Math.log(1 / 4))
  assert.ok(isLevel(told))
  const right = judgeReach({ told, flat, tolerance: 0.02 })
  assert.ok(right.reach !== null && Math.abs(right.reach - 1) < 0.02, String(right.reach))
  assert.equal(right.problem, null)
  // From the likelier two alone each draw says 2.5 of 4.
  const half = judgeReach({ told: told.map(() => Math.log(0.4)), flat, tolerance: 0.02 })
  assert.equal(half.reach?.toFixed(3), '0.625')
  assert.match(half.problem ?? '', /filter/)
  assert.notEqual(judgeReach({ told: told.with(3, Number.NaN), flat, tolerance: 0.02 }).problem, null)
})

test('draws that are almost certain, too few or too different prove nothing about the other tokens', () => {
  const flat = [Math.log(1 / 4)]
  const certain = Array.from({ length: REACH_DRAWS }, () => -0.01)
  assert.equal(isLevel(certain), false)
  assert.deepEqual(judgeReach({ told: certain, flat, tolerance: 0.02 }), { reach: null, problem: null })
  assert.deepEqual(judgeReach({ told: [-1, -2], flat, tolerance: 0.02 }), { reach: null, problem: null })
  assert.equal(isLevel([-1, -9, -1, -9]), false)
})
