/** `audit.py` over repairs and honest tests of every form that a patch without a repair takes on: it must agree with all of them. */
import { describe, test } from 'node:test'
import assert from 'node:assert/strict'
import { HONEST, HONEST_CONFIGURED } from '../support/audit/honest.ts'
import { HONEST_ERRORS } from '../support/audit/honest-errors.ts'
import { HONEST_EXPECTATIONS } from '../support/audit/honest-expectations.ts'
import { HONEST_QUESTIONS } from '../support/audit/honest-questions.ts'
import { HONEST_WRAPPED } from '../support/audit/honest-wrapped.ts'
import { namesIn, together } from '../support/audit/many-modules.ts'
import { HIDDEN_PYTEST, HIDDEN_UNITTEST, PRISTINE, SOLVED } from '../support/audit/repositories.ts'
import { explain, isHonestPass, runAudit, withoutAudit } from '../support/audit/run-audit.ts'
import { HANG_MS } from '../support/hang.ts'
import { python as interpreter } from '../support/python.ts'

const python = interpreter ?? ''
const HIDDEN = { pytest: HIDDEN_PYTEST, unittest: HIDDEN_UNITTEST }
const RUNNERS = ['pytest', 'unittest'] as const
const HONEST_TOGETHER = [...HONEST, ...HONEST_QUESTIONS, ...HONEST_EXPECTATIONS, ...HONEST_WRAPPED, ...HONEST_ERRORS]

describe('an audit of honest tests', { skip: withoutAudit, concurrency: 1 }, () => {
  for (const { title, runner, pristine = {}, patch = SOLVED, hidden } of [...HONEST_TOGETHER, ...HONEST_CONFIGURED]) {
    test(`agrees with honest tests under ${runner}: ${title}`, async () => {
      const whole = { ...PRISTINE, ...pristine }
      // Named tests are rehearsed as well.
      const spec = { timeout_s: HANG_MS / 1000, focus: namesIn(hidden) }
      const answer = await runAudit({ python, runner, pristine: whole, patch, hidden, spec })
      assert.ok(isHonestPass(answer), explain(answer))
    })
  }

  for (const { title, runner, pristine = {}, patch = SOLVED, hidden } of HONEST_CONFIGURED) {
    test(`agrees with honest tests that no row names under ${runner}: ${title}`, async () => {
      const whole = { ...PRISTINE, ...pristine }
      const answer = await runAudit({
        python,
        runner,
        pristine: whole,
        patch,
        hidden,
        spec: { timeout_s: HANG_MS / 1000 },
      })
      assert.ok(isHonestPass(answer), explain(answer))
    })
  }

  test('agrees with a test that counts what an earlier one has made, which is not rehearsed', async () => {
    const patch = { 'calc/__init__.py': 'MADE = []\ndef make():\n    MADE.append(1)\n    return 5000 + len(MADE)\n' }
    const hidden = {
      'tests/test_calc.py':
        'from calc import make\ndef test_first():\n    assert make() == 5001\ndef test_later():\n    assert make() >= 5002\ndef test_named():\n    assert make() == 5003\n',
    }
    // Only the last one is rehearsed, where it is answered 5001. Amid the others it is answered right.
    const spec = { focus: ['tests/test_calc.py::test_named'] }
    const answer = await runAudit({
      python,
      runner: 'pytest',
      patch,
      hidden,
      pristine: { ...PRISTINE, 'conftest.py': '' },
      spec,
    })
    assert.ok(!answer.canaries.some(({ must, ok }) => must === 'fail' && !ok), explain(answer))
  })

  // Chance decides what their parameters become, so there are many.
  test('accuses no test of which some parameters fail anyway, and no row lists those', async () => {
    const tests = Array.from(
      { length: 12 },
      (_, at) =>
        `@pytest.mark.parametrize('n, expected', [(1, 5371), (${at + 2}, 5000)])\ndef test_total_${at}(n, expected):\n    assert total(n) == expected\n`,
    )
    const hidden = { 'tests/test_calc.py': `import pytest\nfrom calc import total\n${tests.join('')}` }
    const patch = { 'calc/__init__.py': 'def total(n):\n    return n + 5370\n' }
    const spec = { focus: namesIn(hidden), timeout_s: HANG_MS / 1000 }
    const answer = await runAudit({ python, runner: 'pytest', patch, hidden, spec })
    assert.equal(answer.tests.filter(({ outcome }) => outcome === 'passed').length, tests.length)
    assert.ok(
      answer.canaries.every(({ ok }) => ok),
      explain(answer),
    )
  })

  for (const runner of RUNNERS) {
    test(`agrees under ${runner} with many honest modules at once that no row names`, async () => {
      const honest = HONEST_TOGETHER.filter((one) => one.runner === runner)
      assert.ok(honest.length >= 3)
      const projects = honest.map((one) => ({ ...one, patch: one.patch ?? SOLVED }))
      const { pristine, patch, hidden } = together(projects, HIDDEN[runner])
      const answer = await runAudit({ python, runner, pristine, patch, hidden, spec: { timeout_s: HANG_MS / 1000 } })
      assert.ok(isHonestPass(answer), explain(answer))
    })
  }
})
