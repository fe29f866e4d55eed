import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exactInterval } from './proportions.ts'
import { NO_SCORE, addTask, isReportDue, scoreSoFar } from './running-score.ts'
import { meanInterval } from './score-interval.ts'

const RANGE = { low: 0, high: 1 }

function sumsOf(tasks: readonly { resolved: number; valid: number }[]) {
  return tasks.reduce((sums, task) => addTask(sums, task), NO_SCORE)
}

test('has no score when nothing is graded', () => {
  assert.equal(scoreSoFar(NO_SCORE), null)
  assert.equal(scoreSoFar(addTask(NO_SCORE, { resolved: 0, valid: 0 })), null)
})

test('uses the exact interval for one attempt per task', () => {
  const score = scoreSoFar(sumsOf([1, 0, 1, 1].map((resolved) => ({ resolved, valid: 1 }))))
  assert.deepEqual(score, { mean: 0.75, tasks: 4, ...exactInterval({ successes: 3, trials: 4, level: 0.95 }) })
})

test('computes the interval of reports for several attempts from sums only', () => {
  const tasks = [3, 0, 5, 1, 4].map((resolved) => ({ resolved, valid: 5 }))
  const values = tasks.map(({ resolved, valid }) => resolved / valid)
  const expected = meanInterval({ values, level: 0.95, range: RANGE })
  const score = scoreSoFar(sumsOf(tasks))
  assert.ok(score !== null)
  assert.ok(Math.abs(score.mean - 0.52) < 1e-12)
  assert.ok(Math.abs(score.low - expected.low) < 1e-9 && Math.abs(score.high - expected.high) < 1e-9)
})

test('tasks without a spread leave the interval room for what a small sample misses', () => {
  const tasks = [5, 5, 5].map((resolved) => ({ resolved, valid: 5 }))
  const expected = meanInterval({ values: [1, 1, 1], level: 0.95, range: RANGE })
  const score = scoreSoFar(sumsOf(tasks))
  assert.ok(score !== null && score.low < 0.5, JSON.stringify(score))
  assert.ok(Math.abs(score.low - expected.low) < 1e-9 && score.high === 1)
})

test('equal tasks in the middle leave room on either side', () => {
  const expected = meanInterval({ values: [0.5, 0.5, 0.5], level: 0.95, range: RANGE })
  const score = scoreSoFar(sumsOf([1, 1, 1].map((resolved) => ({ resolved, valid: 2 }))))
  assert.ok(score !== null)
  assert.ok(Math.abs(score.low - expected.low) < 1e-9 && Math.abs(score.high - expected.high) < 1e-9)
})

test('counts every valid attempt of a task', () => {
  assert.equal(addTask(NO_SCORE, { resolved: 1, valid: 3 }).attempts, 3)
})

test('a task that is played again replaces its earlier values', () => {
  const before = sumsOf([
    { resolved: 1, valid: 2 },
    { resolved: 2, valid: 2 },
  ])
  const again = addTask(addTask(before, { resolved: 1, valid: 2 }, -1), { resolved: 2, valid: 4 })
  assert.deepEqual(
    scoreSoFar(again),
    scoreSoFar(
      sumsOf([
        { resolved: 2, valid: 2 },
        { resolved: 2, valid: 4 },
      ]),
    ),
  )
})

const DAY = 86_400_000

/** Reports of a run whose rollouts could send one each second. */
function reportsIn(days: number): number {
  let [toldAt, reports] = [0, 0]
  for (let now = 1_000; now <= days * DAY; now += 1_000) {
    if (!isReportDue({ now, toldAt, since: 0 })) continue
    toldAt = now
    reports += 1
  }
  return reports
}

test('a young run reports every fifteen seconds', () => {
  assert.equal(isReportDue({ now: 60_000, toldAt: 45_000, since: 0 }), true)
  assert.equal(isReportDue({ now: 60_000, toldAt: 46_000, since: 0 }), false)
})

test('the age of a run counts, not the time of day', () => {
  const since = 1_700_000_000_000
  assert.equal(isReportDue({ now: since + 60_000, toldAt: since + 45_000, since }), true)
})

test('a run of five weeks sends few enough reports for its history, and still some each day', () => {
  const [fourDays, fiveWeeks] = [reportsIn(4), reportsIn(35)]
  assert.ok(fourDays > 150 && fourDays < 260, `${fourDays}`)
  // At four events each they leave room for 600 others.
  assert.ok(fiveWeeks * 4 < 1_400, `${fiveWeeks}`)
  assert.ok(fiveWeeks - reportsIn(28) >= 5)
})
