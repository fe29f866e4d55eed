import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ClusteredOutcomes, type PairedOutcomes, pairedBootstrapInterval } from './bootstrap.ts'
import { exactInterval, testMcNemar, wilsonInterval } from './proportions.ts'
import { differenceInterval, meanInterval, scoreInterval } from './score-interval.ts'

const task = (index: number, outcomes: (0 | 1)[], cluster = `r${index}`): ClusteredOutcomes => {
  return { taskId: `t${index}`, cluster, outcomes }
}
const pair = (index: number, before: (0 | 1)[], after: (0 | 1)[], cluster = `r${index}`): PairedOutcomes => {
  return { taskId: `t${index}`, cluster, before, after }
}
const repeat = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

test('three of three do not prove a score of 1, because the exact bound applies without a spread', () => {
  const found = scoreInterval({ tasks: repeat(3, (index) => task(index, [1])), seed: 1, draws: 200 })
  assert.deepEqual(found?.bootstrap, { low: 1, high: 1 })
  // Clopper and Pearson: 0.025^(1/3).
  assert.ok(Math.abs((found?.interval.low ?? 0) - 0.025 ** (1 / 3)) < 1e-12)
  assert.equal(found?.interval.high, 1)
})

test('several attempts without a spread over tasks leave the same room', () => {
  const found = scoreInterval({ tasks: repeat(4, (index) => task(index, [0, 0, 0])), seed: 1, draws: 200 })
  assert.equal(found?.interval.low, 0)
  assert.ok(Math.abs((found?.interval.high ?? 0) - (1 - 0.025 ** (1 / 4))) < 1e-12)
})

test('losing three tasks of three proves no regression, and losing thirty does', () => {
  const lost = (count: number): PairedOutcomes[] => repeat(count, (index) => pair(index, [1], [0]))
  // McNemar: 2 · 0.5³ = 0.25.
  assert.ok(Math.abs(testMcNemar({ onlyBefore: 3, onlyAfter: 0 }).exact - 0.25) < 1e-12)
  const three = differenceInterval({ tasks: lost(3), seed: 1, draws: 200 })
  assert.ok(three !== null && three.low === -1 && three.high > 0)
  const thirty = differenceInterval({ tasks: lost(30), seed: 1, draws: 200 })
  assert.ok(thirty !== null && thirty.high < -0.7)
})

test('two equal sides exclude large differences only as far as the number of tasks allows', () => {
  const found = differenceInterval({ tasks: repeat(10, (index) => pair(index, [1], [1])), seed: 1, draws: 200 })
  // A share 1 − 0.025^(1/10) = 0.308 of tasks may differ unseen.
  assert.ok(found !== null && Math.abs(found.high - (1 - 0.025 ** 0.1)) < 1e-12 && found.low === -found.high)
})

test('equal gains whose last digits rounding makes differ prove as little as equal gains', () => {
  const tasks = [pair(0, [1, 0, 0], [1, 1, 0]), pair(1, [1, 1, 0], [1, 1, 1])]
  const found = differenceInterval({ tasks, seed: 1, draws: 200 })
  // Of two tasks, a share 1 − 0.025^(1/2) of others may be missed.
  const missed = 1 - 0.025 ** (1 / 2)
  assert.ok(found !== null && Math.abs(found.low - (1 / 3 - (missed * 4) / 3)) < 1e-9, JSON.stringify(found))
  assert.ok(Math.abs(found.high - (1 / 3 + (missed * 2) / 3)) < 1e-9)
})

test('one attempt each: the interval never excludes 0 when McNemar’s exact test is not significant', () => {
  for (let tasks = 5; tasks <= 40; tasks += 5) {
    for (let onlyBefore = 0; onlyBefore <= tasks; onlyBefore++) {
      const pairs = repeat(tasks, (index) => (index < onlyBefore ? pair(index, [1], [0]) : pair(index, [1], [1])))
      const interval = differenceInterval({ tasks: pairs, seed: 1, draws: 100 })
      const { exact } = testMcNemar({ onlyBefore, onlyAfter: 0 })
      if (interval !== null && interval.high < 0) assert.ok(exact < 0.05, `${onlyBefore} of ${tasks}: p = ${exact}`)
    }
  }
})

test('has no interval without anything to score', () => {
  assert.equal(scoreInterval({ tasks: [], seed: 1 }), null)
  assert.equal(differenceInterval({ tasks: [], seed: 1 }), null)
})

const near = (actual: number | undefined, expected: number): void =>
  assert.ok(actual !== undefined && Math.abs(actual - expected) < 1e-9, `expected ${expected}, got ${actual}`)

test('one attempt each: the interval is never narrower than the exact interval of as many successes', () => {
  // One cluster, one of ten: resampling alone ends at 0.3 or so; Clopper and Pearson give 0.0025 to 0.4450.
  const tasks = repeat(10, (index) => task(index, [index === 0 ? 1 : 0]))
  const found = scoreInterval({ tasks, seed: 1, draws: 200 })
  const exact = exactInterval({ successes: 1, trials: 10, level: 0.95 })
  assert.ok(Math.abs(exact.high - 0.445016) < 1e-6)
  assert.ok(found !== null && found.interval.low <= exact.low && found.interval.high >= exact.high)
  assert.equal(found.interval.high, Math.max(exact.high, found.bootstrap.high))
})

test('several attempts: the interval is never narrower than Student’s over tasks, and stays inside 0 and 1', () => {
  // Rates 1, ½, ½, 0: mean ½, sd √(½ / 3), over 2; t(0.975, 3) = 3.182446: ½ ± 0.6496, cut to 0 and 1.
  const tasks = [task(0, [1, 1]), task(1, [1, 0]), task(2, [0, 1]), task(3, [0, 0])]
  const found = scoreInterval({ tasks, seed: 1, draws: 200 })
  assert.deepEqual(found?.interval, { low: 0, high: 1 })
  const narrow = meanInterval({ values: [0.4, 0.5, 0.5, 0.6], level: 0.95, range: { low: 0, high: 1 } })
  // sd √(0.02 / 3) = 0.0816497, over 2, times 3.182446.
  near(narrow.high, 0.5 + (3.182446305284263 * Math.sqrt(0.02 / 3)) / 2)
  near(narrow.low, 0.5 - (3.182446305284263 * Math.sqrt(0.02 / 3)) / 2)
})

test('uses Student’s interval when one task has several attempts', () => {
  const tasks = [task(0, [1]), task(1, [1]), task(2, [1, 1])]
  const found = scoreInterval({ tasks, seed: 1, draws: 200 })
  // No spread: 1 − (1 − 0.025^(1/3)) = 0.2924, as the exact bound of three of three; with one of two it is Student's.
  near(found?.interval.low, 0.025 ** (1 / 3))
  const mixed = scoreInterval({ tasks: [task(0, [1]), task(1, [1]), task(2, [1, 0])], seed: 1, draws: 200 })
  assert.equal(mixed?.interval.high, 1)
  // Mean 5/6, sem 1/6, t(0.975, 2) = 4.302653: below 0.1163.
  near(mixed?.interval.low, 5 / 6 - 4.302652729749462 / 6)
})

test('one attempt each: uses the exact interval of gains and losses, scaled to all tasks', () => {
  // Of 20 tasks 6 gained and 1 lost: 6 of 7 is 0.4213 to 0.9964; 7/20·(2·share − 1) is −0.0551 to 0.3475.
  const tasks = repeat(20, (index) => pair(index, index === 0 ? [1] : [0], index > 0 && index < 7 ? [1] : [0]))
  const share = exactInterval({ successes: 6, trials: 7, level: 0.95 })
  const found = differenceInterval({ tasks, seed: 1, draws: 200 })
  const resampled = pairedBootstrapInterval({ tasks, seed: 1, draws: 200 }) ?? assert.fail()
  near(found?.low, Math.min(resampled.low, (7 / 20) * (2 * share.low - 1)))
  near(found?.high, Math.max(resampled.high, (7 / 20) * (2 * share.high - 1)))
  assert.ok(found !== null && found.low < 0)
})

test('compares a side with several attempts by Student’s interval over tasks, on either side', () => {
  const [several, single] = [[1, 0, 1] as (0 | 1)[], [1] as (0 | 1)[]]
  for (const [before, after] of [
    [several, single],
    [single, several],
  ] as const) {
    // Differences of ⅓, ⅓, ⅓ and 0 in one direction: mean ¼, sem 1/12, t(0.975, 3) = 3.182446.
    const tasks = [
      pair(0, [...before], [...after]),
      pair(1, [...before], [...after]),
      pair(2, [...before], [...after]),
      before === several ? pair(3, [1, 1], [1]) : pair(3, [1], [1, 1]),
    ]
    const sign = before === several ? 1 : -1
    const found = differenceInterval({ tasks, seed: 1, draws: 200 })
    const ends = [sign * 0.25 - 3.182446305284263 / 12, sign * 0.25 + 3.182446305284263 / 12]
    near(found?.low, Math.min(...ends))
    near(found?.high, Math.max(...ends))
  }
})

test('uses Student’s interval of a difference when a single task has several attempts', () => {
  // Differences 1, 1, 1 and 0: mean ¾, sd ½, sem ¼; t(0.975, 3) = 3.182446.
  const tasks = [...repeat(3, (index) => pair(index, [0], [1])), pair(3, [1], [1, 1])]
  const found = differenceInterval({ tasks, seed: 1, draws: 200 })
  near(found?.low, 0.75 - 3.182446305284263 / 4)
})

test('one attempt each: exchanged gains and losses turn the interval round', () => {
  // Of 20 tasks 1 gained and 6 lost: 1 of 7 is 0.0036 to 0.5787; 7/20·(2·share − 1) is −0.3475 to 0.0551.
  const tasks = repeat(20, (index) => pair(index, index > 0 && index < 7 ? [1] : [0], index === 0 ? [1] : [0]))
  const share = exactInterval({ successes: 1, trials: 7, level: 0.95 })
  const found = differenceInterval({ tasks, seed: 1, draws: 200 })
  near(found?.high, (7 / 20) * (2 * share.high - 1))
})

test('an unbounded value without a spread has an interval without width', () => {
  assert.deepEqual(meanInterval({ values: [3, 3], level: 0.95, range: null }), { low: 3, high: 3 })
  // Half way in a range: as much room on either side.
  const half = meanInterval({ values: [0.5, 0.5], level: 0.95, range: { low: 0, high: 1 } })
  near(half.low, 0.5 * 0.025 ** 0.5)
  near(half.high, 1 - 0.5 * 0.025 ** 0.5)
})

test('Wilson’s interval begins at exactly 0 without a success and ends at exactly 1 without a failure', () => {
  for (let trials = 1; trials <= 30; trials++) {
    assert.equal(wilsonInterval({ successes: 0, trials, level: 0.95 }).low, 0)
    assert.equal(wilsonInterval({ successes: trials, trials, level: 0.95 }).high, 1)
  }
})
