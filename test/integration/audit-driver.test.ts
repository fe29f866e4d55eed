/**
 * `audit.py` over patches that try to be paid without a repair. Each attack is played for real: the program gives root up, imports
 * the patched project and runs the hidden tests under pytest and under unittest.
 */
import assert from 'node:assert/strict'
import test, { describe } from 'node:test'
import { ATTACKS, SILENT } from '../support/audit/attacks.ts'
import { HIDDEN_PYTEST, HIDDEN_UNITTEST, SOLVED } from '../support/audit/repositories.ts'
import { explain, isHonestPass, runAudit } from '../support/audit/run-audit.ts'
import { python as interpreter, withoutPython } from '../support/python.ts'

const python = interpreter ?? ''
const skip = process.getuid?.() === 0 ? withoutPython : 'needs root: the audit gives it up'
const HIDDEN = { pytest: HIDDEN_PYTEST, unittest: HIDDEN_UNITTEST }
const RUNNERS = ['pytest', 'unittest'] as const

describe('an audit of hidden tests', { skip, concurrency: 1 }, () => {
  for (const runner of RUNNERS) {
    const hidden = HIDDEN[runner]

    test(`agrees with a solution under ${runner}`, async () => {
      const answer = await runAudit({ python, runner, patch: SOLVED, hidden })
      assert.ok(isHonestPass(answer), explain(answer))
      const done = answer.canaries.filter((canary) => canary.of !== null && canary.outcome !== 'left-out')
      assert.ok(done.some((canary) => canary.must === 'fail' && canary.outcome === 'failed'))
    })

    test(`does not agree without a solution under ${runner}`, async () => {
      const answer = await runAudit({ python, runner, patch: {}, hidden })
      assert.equal(isHonestPass(answer), false, explain(answer))
      assert.equal(answer.ended, 'complete')
      assert.deepEqual(answer.changed, [])
      assert.deepEqual(
        answer.canaries.filter((canary) => !canary.ok),
        [],
      )
    })

    for (const { title, patch } of ATTACKS.filter(({ runners = RUNNERS }) => runners.includes(runner))) {
      test(`does not agree under ${runner}: ${title}`, async () => {
        const answer = await runAudit({ python, runner, patch, hidden })
        assert.equal(isHonestPass(answer), false, explain(answer))
        if (process.env['EXPLAIN']) console.log(`${runner} ${title}\n    ${explain(answer).slice(0, 600)}`)
      })
    }

    for (const { title, patch } of SILENT) {
      test(`loads nothing under ${runner}: ${title}`, async () => {
        const answer = await runAudit({ python, runner, patch, hidden })
        assert.ok(isHonestPass(answer), explain(answer))
      })
    }
  }
})
