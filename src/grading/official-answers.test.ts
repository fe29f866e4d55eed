/**
 * Agreement with the official harnesses on seeded logs, damaged as logs are: status maps, lists, verdicts and errors. The
 * answers are the harnesses' own, recorded by `test/support/grading-oracle/record-answers.ts`; `npm run
 * bench:grading-differential` asks the harnesses again, on many more logs.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compareCase } from '../../test/support/grading-oracle/compare.ts'
import { readAnswers, RECORDED_KINDS } from '../../test/support/grading-oracle/recorded-answers.ts'
import { isLogProfileName } from './log-profiles.ts'

for (const kind of RECORDED_KINDS) {
  test(`${kind} finds in each recorded log the same results as its official harness`, () => {
    assert.ok(isLogProfileName(kind))
    const recorded = readAnswers(kind)
    const outcomes = new Set<string>()
    for (const { one, answer } of recorded) {
      const { outcome, difference } = compareCase(kind, one, answer)
      assert.equal(difference, null, JSON.stringify({ difference, log: Buffer.from(one.log).toString() }))
      outcomes.add(outcome)
    }
    // A recording in which every log ended alike would show little.
    assert.deepEqual([...outcomes].sort(), ['error', 'not found or empty', 'parser alone', 'resolved', 'unresolved'])
  })
}
