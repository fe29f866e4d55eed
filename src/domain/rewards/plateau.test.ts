import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findPlateau } from './plateau.ts'

const at = (...scores: [iteration: number, passAt1: number][]) =>
  scores.map(([iteration, passAt1]) => ({ iteration, passAt1 }))

test('a plateau needs a smaller gain over the previous window than required', () => {
  // Window 2 at iteration 4: iterations 3 and 4 (mean ⅝) against 1 and 2 (mean ½).
  const scores = at([1, 0.25], [2, 0.75], [3, 0.5], [4, 0.75])
  const found = findPlateau({ scores, iteration: 4, window: 2, minGain: 0.25 })
  assert.deepEqual(found, { plateau: true, gain: 0.125, last: 2, before: 2 })
  assert.equal(findPlateau({ scores, iteration: 4, window: 2, minGain: 0.125 }).plateau, false)
})

test('windows end at the requested iteration and ignore later and older scores', () => {
  const scores = at([0, 1], [1, 0], [2, 0], [3, 1], [4, 1], [5, 0])
  assert.deepEqual(findPlateau({ scores, iteration: 4, window: 2, minGain: 0 }), {
    plateau: false,
    gain: 1,
    last: 2,
    before: 2,
  })
})

test('the score before the first iteration is in no window that starts after it', () => {
  // Window 3 at iteration 6 reaches back to iteration 1.
  const scores = at([0, 1], [2, 0.5], [5, 0.5])
  assert.deepEqual(findPlateau({ scores, iteration: 6, window: 3, minGain: 0.1 }), {
    plateau: true,
    gain: 0,
    last: 1,
    before: 1,
  })
})

test('a window without an evaluation decides nothing', () => {
  assert.deepEqual(findPlateau({ scores: at([4, 0.5]), iteration: 4, window: 2, minGain: 1 }), {
    plateau: false,
    gain: null,
    last: 1,
    before: 0,
  })
  assert.deepEqual(findPlateau({ scores: at([1, 0.5]), iteration: 4, window: 2, minGain: 1 }), {
    plateau: false,
    gain: null,
    last: 0,
    before: 1,
  })
})
