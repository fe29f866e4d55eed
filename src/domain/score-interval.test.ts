import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ClusteredOutcomes, PairedOutcomes } from './bootstrap.ts'
import { differenceInterval, scoreInterval } from './score-interval.ts'
import { testMcNemar } from './mcnemar.ts'

const task = (index: number, outcomes: (0 | 1)[], cluster = `r${index}`): ClusteredOutcomes => {
  return { taskId: `t${index}`, cluster, outcomes }
}
const pair = (index: number, before: (0 | 1)[], after: (0 | 1)[], cluster = `r${index}`): PairedOutcomes => {
  return { taskId: `t${index}`, cluster, before, after }
}
const repeat = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

test('three of three prove no score of 1: without spread the exact bound holds', () => {
  const found = scoreInterval({ tasks: repeat(3, (index) => task(index, [1])), seed: 1, draws: 200 })
  assert.deepEqual(found?.bootstrap, { low: 1, high: 1 })
  // Clopper and Pearson: 0.025^(1/3).
  assert.ok(Math.abs((found?.interval.low ?? 0) - 0.025 ** (1 / 3)) < 1e-12)
  assert.equal(found?.interval.high, 1)
})

test('several attempts without spread over tasks leave the same room', () => {
  const found = scoreInterval({ tasks: repeat(4, (index) => task(index, [0, 0, 0])), seed: 1, draws: 200 })
  assert.equal(found?.interval.low, 0)
  assert.ok(Math.abs((found?.interval.high ?? 0) - (1 - 0.025 ** (1 / 4))) < 1e-12)
})

test('three tasks lost of three are no proven regression, thirty are', () => {
  const lost = (count: number): PairedOutcomes[] => repeat(count, (index) => pair(index, [1], [0]))
  // McNemar: 2 · 0.5³ = 0.25.
  assert.ok(Math.abs(testMcNemar({ onlyBefore: 3, onlyAfter: 0 }).exact - 0.25) < 1e-12)
  const three = differenceInterval({ tasks: lost(3), seed: 1, draws: 200 })
  assert.ok(three !== null && three.low === -1 && three.high > 0)
  const thirty = differenceInterval({ tasks: lost(30), seed: 1, draws: 200 })
  assert.ok(thirty !== null && thirty.high < -0.7)
})

test('two sides that agree on every task exclude large differences only as far as the number of tasks allows', () => {
  const found = differenceInterval({ tasks: repeat(10, (index) => pair(index, [1], [1])), seed: 1, draws: 200 })
  // A share 1 − 0.025^(1/10) = 0.308 of tasks may differ unseen.
  assert.ok(found !== null && Math.abs(found.high - (1 - 0.025 ** 0.1)) < 1e-12 && found.low === -found.high)
})

test('one attempt each: the interval never excludes 0 where McNemar’s exact test finds nothing', () => {
  for (let tasks = 5; tasks <= 40; tasks += 5) {
    for (let onlyBefore = 0; onlyBefore <= tasks; onlyBefore++) {
      const pairs = repeat(tasks, (index) => (index < onlyBefore ? pair(index, [1], [0]) : pair(index, [1], [1])))
      const interval = differenceInterval({ tasks: pairs, seed: 1, draws: 100 })
      const { exact } = testMcNemar({ onlyBefore, onlyAfter: 0 })
      if (interval !== null && interval.high < 0) assert.ok(exact < 0.05, `${onlyBefore} of ${tasks}: p = ${exact}`)
    }
  }
})
