import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PairedOutcomes } from './bootstrap.ts'
import { hintPower } from './comparison.ts'

const pair = (before: (0 | 1)[], after: (0 | 1)[]): PairedOutcomes => ({ taskId: 't', cluster: 'r', before, after })
const close = (actual: number | null | undefined, expected: number): void =>
  assert.ok(typeof actual === 'number' && Math.abs(actual - expected) < 1e-9, `expected ${expected}, got ${actual}`)

/** z(0.975) + z(0.8) and z(0.975) + z(0.9): published quantiles of the normal distribution. */
const REACH_80 = 1.959963984540054 + 0.8416212335729143
const REACH_90 = 1.959963984540054 + 1.2815515655446004

test('computes the smallest visible difference and the number of tasks that would prove it', () => {
  // Mean ¼, s² = (1 − 4·(1/16)) / 3 = ¼.
  const tasks = [pair([0], [1]), pair([0], [0]), pair([1], [1]), pair([1], [1])]
  const hint = hintPower({ tasks, line: 0, level: 0.95 })
  assert.equal(hint?.power, 0.8)
  close(hint?.smallest, REACH_80 * Math.sqrt(1 / 4 / 4))
  // n = s²·(reach / distance)² = ¼·(2.801585·4)² = 31.395
  assert.equal(hint?.tasks, 32)
  // One attempt each: all of the spread may be luck. k = s² / (n·(d / reach)²) = 7.85.
  assert.deepEqual([hint?.attempts, hint?.attemptsAtLeast], [8, true])
})

test('measures the distance from a line other than 0, on either side', () => {
  const tasks = [pair([0], [1]), pair([0], [0]), pair([1], [1]), pair([1], [1])]
  // ¼ − (−¼) = ½: a quarter of the tasks and attempts that the distance ¼ needs.
  const allowed = hintPower({ tasks, line: -0.25, level: 0.95 })
  assert.deepEqual([allowed?.tasks, allowed?.attempts], [8, 2])
  const above = hintPower({ tasks, line: 0.75, level: 0.95 })
  assert.deepEqual([above?.tasks, above?.attempts], [8, 2])
})

test('more power and a stricter level need a larger difference', () => {
  const tasks = [pair([0], [1]), pair([0], [0]), pair([1], [1]), pair([1], [1])]
  close(hintPower({ tasks, line: 0, level: 0.95, power: 0.9 })?.smallest, REACH_90 / 4)
  const strict = hintPower({ tasks, line: 0, level: 0.99 })
  // z(0.995) = 2.5758293.
  close(strict?.smallest, (2.5758293035489004 + 0.8416212335729143) / 4)
})

test('separates luck from the spread of tasks, since attempts reduce only luck', () => {
  // Differences ½, ½, 0, 0 (mean ¼, s² = (½ − ¼) / 3 = 1/12); rates ½ and 1, ½ and 1, ½ and ½, 0 and 0.
  // Luck of a rate ½ of two attempts: ¼ / 1 = ¼. Mean over tasks: (¼ + ¼ + (¼ + ¼) + 0) / 4 = ¼, more than s²: no spread
  // of tasks is left. k = ¼·2 / (4·(¼ / reach)²) = 2·(reach)² = 15.7.
  const tasks = [pair([1, 0], [1, 1]), pair([0, 1], [1, 1]), pair([1, 0], [0, 1]), pair([0, 0], [0, 0])]
  const hint = hintPower({ tasks, line: 0, level: 0.95 })
  assert.deepEqual([hint?.attempts, hint?.attemptsAtLeast], [16, false])
  // n = (1/12)·(4·reach)² = 10.47
  assert.equal(hint?.tasks, 11)
})

test('multiplies the mean number of attempts when the sides differ', () => {
  // As above with four attempts behind: rates stay, luck there is ¼ / 3 of a rate ½.
  // Luck: (¼ + 0, ¼ + 0, ¼ + 1/12, 0) / 4 = (5/6) / 4 = 5/24 > s² = 1/12; k̄ = 3.
  // k = (5/24)·3 / (4·(¼ / reach)²) = 2.5·reach² = 19.62.
  const tasks = [
    pair([1, 0], [1, 1, 1, 1]),
    pair([0, 1], [1, 1, 1, 1]),
    pair([1, 0], [0, 1, 0, 1]),
    pair([0, 0], [0, 0, 0, 0]),
  ]
  assert.equal(hintPower({ tasks, line: 0, level: 0.95 })?.attempts, 20)
})

test('few tasks that surely differ need more tasks, and no number of attempts helps', () => {
  const tasks = [
    ...Array.from({ length: 6 }, () => pair([0, 0], [1, 1])),
    ...Array.from({ length: 5 }, () => pair([1, 1], [0, 0])),
  ]
  const hint = hintPower({ tasks, line: 0, level: 0.95 })
  assert.deepEqual([hint?.attempts, hint?.attemptsAtLeast], [null, false])
  // s² = (11 − 1/11) / 10 = 12/11; n = (12/11)·(11·reach)² = 1036.03.
  assert.equal(hint?.tasks, 1037)
})

test('asks for at least one attempt and two tasks when a difference is already certain', () => {
  const tasks = [...Array.from({ length: 99 }, () => pair([0, 0], [1, 1])), pair([0, 1], [1, 1])]
  const hint = hintPower({ tasks, line: 0, level: 0.95 })
  assert.deepEqual([hint?.attempts, hint?.tasks], [1, 2])
})

test('plans nothing without a difference, or without any spread', () => {
  const equal = hintPower({ tasks: [pair([0], [1]), pair([1], [0])], line: 0, level: 0.95 })
  assert.deepEqual([equal?.attempts, equal?.tasks], [null, null])
  const sure = hintPower({ tasks: [pair([0], [1]), pair([0], [1])], line: 0, level: 0.95 })
  assert.deepEqual([sure?.attempts, sure?.tasks, sure?.smallest], [null, null, null])
  // 2/3 − 1/3 and 3/3 − 2/3 differ by rounding alone.
  const alike = [pair([1, 0, 0], [1, 1, 0]), pair([1, 1, 0], [1, 1, 1])]
  const rounded = hintPower({ tasks: alike, line: 0, level: 0.95 })
  assert.deepEqual([rounded?.attempts, rounded?.tasks, rounded?.smallest], [null, null, null])
})

test('plans nothing for one task, which has no spread', () => {
  assert.equal(hintPower({ tasks: [pair([0], [1])], line: 0, level: 0.95 }), null)
  assert.equal(hintPower({ tasks: [], line: 0, level: 0.95 }), null)
})

test('a single attempt on one side of one task makes luck unmeasurable', () => {
  const whole = [pair([1, 0], [1, 1]), pair([0, 0], [0, 1])]
  assert.equal(hintPower({ tasks: whole, line: 0, level: 0.95 })?.attemptsAtLeast, false)
  for (const single of [pair([1], [1, 0]), pair([1, 0], [1])]) {
    assert.equal(hintPower({ tasks: [...whole, single], line: 0, level: 0.95 })?.attemptsAtLeast, true)
  }
})
