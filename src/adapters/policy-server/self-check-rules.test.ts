import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeSamples, judgeSlopes } from './self-check-rules.ts'

test('samples that are scored with what was said of them are fine; a constant excess is a filter, even inside the noise', () => {
  const noise = [0.008, -0.008, 0.005, -0.005]
  const pairs = (excess: number) => noise.map((one): [number, number] => [-1 + one + excess, -1])
  assert.equal(judgeSamples({ pairs: pairs(0), tolerance: 0.02 }).problem, null)
  // Renormalising over 99 % of the mass adds -ln 0.99 = 0.01 to everything: below the median's limit, above a quarter of it.
  const filtered = judgeSamples({ pairs: pairs(0.01), tolerance: 0.02 })
  assert.ok(filtered.figures.medianDifference <= 0.02)
  assert.match(filtered.problem ?? '', /filter/)
})

test('nothing sampled, or a value that is none, is a problem', () => {
  assert.notEqual(judgeSamples({ pairs: [], tolerance: 1 }).problem, null)
  assert.notEqual(judgeSamples({ pairs: [[Number.NaN, -1]], tolerance: 1 }).problem, null)
  assert.notEqual(judgeSamples({ pairs: [[-1, Number.NEGATIVE_INFINITY]], tolerance: 1 }).problem, null)
})

test('at temperature 0.5 differences between two tokens double; raw ones do not', () => {
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

test('one draw, or draws that are about as likely, say nothing about temperatures', () => {
  const one = judgeSlopes({ draws: [{ told: 0, scored: 0 }], temperature: 0.5, tolerance: 1e-3 })
  assert.deepEqual(one, { kind: 'untold', draws: 1, slopeError: null })
  const alike = [
    { told: -1.2, scored: -1 },
    { told: -1.2, scored: -1 },
  ]
  assert.equal(judgeSlopes({ draws: alike, temperature: 0.5, tolerance: 1e-3 }).kind, 'untold')
})
