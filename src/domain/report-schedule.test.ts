import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isReportDue } from './report-schedule.ts'

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

test('a run of five weeks sends few enough reports for its history, and still some each day', () => {
  const [fourDays, fiveWeeks] = [reportsIn(4), reportsIn(35)]
  assert.ok(fourDays > 150 && fourDays < 260, `${fourDays}`)
  // At four events each they leave room for 600 others.
  assert.ok(fiveWeeks * 4 < 1_400, `${fiveWeeks}`)
  assert.ok(fiveWeeks - reportsIn(28) >= 5)
})
