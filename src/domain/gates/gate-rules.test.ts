import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AuditOutcome } from '../../contracts/audit.types.ts'
import { gateRepeats, type GradedCheck, judgeGate, nextGateCheck } from './gate-rules.ts'
import { missedNameLines } from './suite-filters.ts'
import { exceptionsIn } from '../../grading/gate-log.ts'

const gold = (repeat: number, change: Partial<GradedCheck> = {}): GradedCheck => ({
  check: 'gold',
  repeat,
  verdict: 'resolved',
  reason: null,
  notPassed: {},
  ...change,
})
const empty = (repeat: number, change: Partial<GradedCheck> = {}): GradedCheck => ({
  ...gold(repeat, { verdict: 'unresolved', notPassed: { t1: 'FAILED' } }),
  check: 'empty',
  ...change,
})
const fails = { verdict: 'unresolved', notPassed: { t1: 'FAILED' } } as const

test('a task passes only when every repeat of both checks holds', () => {
  assert.equal(judgeGate({ checks: [gold(1), empty(1), gold(2), empty(2)], repeats: 2 }).outcome, 'passed')
  const short = judgeGate({ checks: [gold(1), empty(1)], repeats: 2 })
  assert.deepEqual([short.outcome, short.reason], ['could-not-gate', 'not every check was made'])
})

test('reports a gold patch that always fails or an empty patch that always resolves, with the reason of the log', () => {
  const failing = judgeGate({ checks: [gold(1, { ...fails, reason: 'no-results' }), empty(1)], repeats: 1 })
  assert.deepEqual(
    [failing.outcome, failing.reason],
    ['gold-fails', 'the gold patch was unresolved (no-results), expected resolved'],
  )
  const open = judgeGate({ checks: [gold(1), empty(1, { verdict: 'resolved', notPassed: {} })], repeats: 1 })
  assert.equal(open.outcome, 'empty-resolves')
})

test('a check that differs between repeats is flaky, and the differing tests are named with their statuses', () => {
  const checks = [gold(1), empty(1), gold(2, fails), empty(2), gold(3), empty(3)]
  const judged = judgeGate({ checks, repeats: 3 })
  assert.equal(judged.outcome, 'flaky')
  assert.equal(judged.reason, 'the gold patch resolved 2 of 3 times: t1')
  assert.deepEqual(judged.flips, [{ check: 'gold', test: 't1', statuses: { PASSED: 2, FAILED: 1 } }])
})

test('a test that is called like a method of every object counts as passed where it passed', () => {
  const judged = judgeGate({
    checks: [gold(1), empty(1), gold(2), empty(2, { notPassed: { t1: 'FAILED', constructor: 'FAILED' } })],
    repeats: 2,
  })
  assert.deepEqual(judged.flips, [{ check: 'empty', test: 'constructor', statuses: { PASSED: 1, FAILED: 1 } }])
  assert.equal(judged.outcome, 'flaky')
})

test('a listed test that once ends as an expected failure makes the task flaky although every repeat resolves', () => {
  const judged = judgeGate({
    checks: [gold(1), empty(1), gold(2, { notPassed: { t2: 'XFAIL' } }), empty(2)],
    repeats: 2,
  })
  assert.deepEqual([judged.outcome, judged.reason], ['flaky', 'listed tests ended differently: t2'])
})

test('under the empty patch a test that sometimes passes is flaky, and one that fails in two ways is only named', () => {
  const fickle = (statuses: string[]) =>
    judgeGate({
      checks: statuses.flatMap((status, index) => [
        gold(index + 1),
        empty(index + 1, { notPassed: { t1: 'FAILED', ...(status === 'PASSED' ? {} : { t2: status }) } }),
      ]),
      repeats: statuses.length,
    })
  const coin = fickle(['FAILED', 'PASSED', 'FAILED'])
  assert.deepEqual([coin.outcome, coin.reason], ['flaky', 'listed tests ended differently without the gold patch: t2'])
  const named = fickle(['FAILED', 'ERROR'])
  assert.equal(named.outcome, 'passed')
  assert.deepEqual(named.flips, [{ check: 'empty', test: 't2', statuses: { FAILED: 1, ERROR: 1 } }])
})

test('one grading without a verdict leaves the task ungated with its share and its reason', () => {
  const lost = gold(2, { verdict: 'could-not-grade', reason: 'tests-timed-out', notPassed: {} })
  const judged = judgeGate({ checks: [gold(1), empty(1), lost, empty(2)], repeats: 2 })
  assert.deepEqual(
    [judged.outcome, judged.reason],
    ['could-not-gate', 'the gold patch could not be graded in 1 of 2 (tests-timed-out)'],
  )
})

function play(repeats: number, result: (check: 'gold' | 'empty', repeat: number) => GradedCheck, stopAtFirst = false) {
  const checks: GradedCheck[] = []
  for (;;) {
    const next = nextGateCheck({ checks, repeats, stopAtFirst })
    if (next === null) return checks.map(({ check, repeat }) => `${check} ${repeat}`)
    checks.push(result(next.check, next.repeat))
  }
}
const good = (check: 'gold' | 'empty', repeat: number) => (check === 'gold' ? gold(repeat) : empty(repeat))

test('both patches get equal repeats up to three, and more repeats add only the missing gradings', () => {
  assert.deepEqual(play(1, good), ['gold 1', 'empty 1'])
  assert.equal(play(50, good).length, 53)
  const three = [gold(1), empty(1), gold(2), empty(2), gold(3), empty(3)]
  assert.deepEqual(nextGateCheck({ checks: three, repeats: 3, stopAtFirst: false }), null)
  assert.deepEqual(nextGateCheck({ checks: three, repeats: 5, stopAtFirst: false }), { check: 'gold', repeat: 4 })
  const four = [...three, gold(4)]
  assert.deepEqual(nextGateCheck({ checks: four, repeats: 5, stopAtFirst: false }), { check: 'gold', repeat: 5 })
  const two = [gold(1), empty(1)]
  assert.deepEqual(nextGateCheck({ checks: [...two, gold(2)], repeats: 5, stopAtFirst: false }), {
    check: 'empty',
    repeat: 2,
  })
})

test('gives up after a rejected patch, after three failures in a row, or after the first one where that is enough', () => {
  const rejected = (check: 'gold' | 'empty', repeat: number) =>
    check === 'gold' ? gold(repeat, { verdict: 'could-not-grade', reason: 'patch-rejected' }) : empty(repeat)
  assert.deepEqual(play(50, rejected), ['gold 1'])
  const never = (check: 'gold' | 'empty', repeat: number) => (check === 'gold' ? gold(repeat, fails) : empty(repeat))
  assert.deepEqual(play(50, never), ['gold 1', 'empty 1', 'gold 2', 'empty 2', 'gold 3'])
  assert.equal(
    judgeGate({ checks: [gold(1, fails), gold(2, fails), gold(3, fails)], repeats: 50 }).outcome,
    'gold-fails',
  )
  assert.deepEqual(play(3, never, true), ['gold 1'])
  const once = (check: 'gold' | 'empty', repeat: number) =>
    check === 'gold' && repeat === 1 ? gold(1, fails) : good(check, repeat)
  assert.equal(play(50, once).length, 53, 'one failure alone must not end the gate')
  const solved = (check: 'gold' | 'empty', repeat: number) =>
    check === 'gold' ? gold(repeat) : empty(repeat, { verdict: 'resolved', notPassed: {} })
  assert.deepEqual(play(50, solved).at(-1), 'empty 3')
})

test('finds exceptions in a log, bare or as pytest prints them, and the lines that name what is missing', () => {
  const log = [
    "E       AttributeError: 'Box' object has no attribute 'lid'",
    "E       AttributeError: 'Box' object has no attribute 'lid'",
    'some.module.OddError',
    "ImportError: cannot import name 'open_box' from 'box'",
    'the word ValueError: inside a sentence',
    'tests/test_box.py:3: AttributeError',
    'E       assert 5 == 7',
    'tests/test_box.py:9: AssertionError',
  ].join('\n')
  assert.deepEqual(exceptionsIn(log), { AttributeError: 2, OddError: 1, ImportError: 1, AssertionError: 1 })
  assert.deepEqual(missedNameLines(log), [
    "E       AttributeError: 'Box' object has no attribute 'lid'",
    "ImportError: cannot import name 'open_box' from 'box'",
  ])
  assert.deepEqual(missedNameLines('all good\n'), [])
})

test('of fifty repeats gold is graded in all and the empty patch in three, first in turn', () => {
  const checks: GradedCheck[] = []
  for (;;) {
    const next = nextGateCheck({ checks, repeats: 50, stopAtFirst: false })
    if (next === null) break
    checks.push(next.check === 'gold' ? gold(next.repeat) : empty(next.repeat))
  }
  assert.deepEqual(gateRepeats(50), { gold: 50, empty: 3 })
  assert.deepEqual([checks.filter(({ check }) => check === 'gold').length, checks.length], [50, 53])
  assert.deepEqual(
    checks.slice(0, 8).map(({ check, repeat }) => `${check} ${repeat}`),
    ['gold 1', 'empty 1', 'gold 2', 'empty 2', 'gold 3', 'empty 3', 'gold 4', 'gold 5'],
  )
  assert.equal(judgeGate({ checks, repeats: 50 }).outcome, 'passed')
  assert.equal(judgeGate({ checks: checks.slice(0, 52), repeats: 50 }).reason, 'not every check was made')
})

test('with fewer repeats than the proof needs both patches get the requested number', () => {
  assert.deepEqual(
    [gateRepeats(1), gateRepeats(2)],
    [
      { gold: 1, empty: 1 },
      { gold: 2, empty: 2 },
    ],
  )
  assert.equal(judgeGate({ checks: [gold(1), gold(2), empty(1)], repeats: 2 }).reason, 'not every check was made')
})

test('one empty grading of three that passes a test makes the task flaky despite fifty equal gold gradings', () => {
  const gradedGold = Array.from({ length: 50 }, (_, index) => gold(index + 1))
  const graded = [empty(1), empty(2, { notPassed: { t1: 'FAILED', t2: 'FAILED' } }), empty(3)]
  assert.match(
    judgeGate({ checks: [...gradedGold, ...graded], repeats: 50 }).reason ?? '',
    /without the gold patch: t2/,
  )
})

test('a patch that does not apply gives up only the gold check, not the empty one', () => {
  const checks = [gold(1), empty(1, { verdict: 'could-not-grade', reason: 'patch-rejected' })]
  assert.deepEqual(nextGateCheck({ checks, repeats: 3, stopAtFirst: false }), { check: 'gold', repeat: 2 })
})

test('counts three failures for each check separately, and only when that check never held', () => {
  // Two failures of gold and one of the empty check are no three.
  const mixed = [gold(1, fails), empty(1, { verdict: 'resolved', notPassed: {} }), gold(2, fails)]
  assert.deepEqual(nextGateCheck({ checks: mixed, repeats: 9, stopAtFirst: false }), { check: 'empty', repeat: 2 })
  // It held once: the task is flaky, and how flaky is worth knowing.
  const once = [gold(1), gold(2, fails), gold(3, fails), gold(4, fails)]
  assert.deepEqual(nextGateCheck({ checks: once, repeats: 9, stopAtFirst: false }), { check: 'empty', repeat: 1 })
})

test('a check that held once goes on, although with the other check there are three failures', () => {
  const checks = [gold(1), empty(1, { verdict: 'resolved', notPassed: {} }), gold(2, fails), gold(3, fails)]
  assert.deepEqual(nextGateCheck({ checks, repeats: 9, stopAtFirst: false }), { check: 'empty', repeat: 2 })
})

test('reports a lost grading with the share of its own check', () => {
  const lost = { verdict: 'could-not-grade', reason: 'image', notPassed: {} } as const
  const checks = [gold(1), empty(1, lost), gold(2, lost), empty(2), empty(3), gold(3)]
  assert.equal(judgeGate({ checks, repeats: 3 }).reason, 'the empty patch could not be graded in 1 of 3 (image)')
  assert.equal(
    judgeGate({ checks: [gold(1, lost), empty(1), gold(2), empty(2)], repeats: 3 }).reason,
    'the gold patch could not be graded in 1 of 2 (image)',
  )
})

test('a check that failed every time is not flaky and gets its reason from the log', () => {
  const judged = judgeGate({ checks: [gold(1, fails), empty(1), gold(2, fails), empty(2)], repeats: 2 })
  assert.deepEqual([judged.outcome, judged.reason], ['gold-fails', 'the gold patch was unresolved, expected resolved'])
  const second = [gold(1, fails), gold(2, { ...fails, reason: 'no-results' })]
  assert.match(judgeGate({ checks: second, repeats: 2 }).reason ?? '', /unresolved \(no-results\)/)
  const open = { verdict: 'resolved', notPassed: {} } as const
  assert.equal(
    judgeGate({ checks: [gold(1), empty(1, open)], repeats: 1 }).reason,
    'the empty patch was resolved, expected unresolved',
  )
})

test('does not pass a task when either side lacks repeats', () => {
  assert.equal(judgeGate({ checks: [gold(1), empty(1), gold(2)], repeats: 2 }).outcome, 'could-not-gate')
  assert.equal(judgeGate({ checks: [gold(1), empty(1), empty(2)], repeats: 2 }).outcome, 'could-not-gate')
  assert.equal(judgeGate({ checks: [], repeats: 1 }).outcome, 'could-not-gate')
})

test('names three of many flaky tests and the number of the others', () => {
  const notPassed = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`t${index}`, 'FAILED']))
  const reason = (count: number) =>
    judgeGate({
      checks: [gold(1), empty(1), gold(2, { verdict: 'unresolved', notPassed: notPassed(count) }), empty(2)],
      repeats: 2,
    }).reason
  assert.equal(reason(3), 'the gold patch resolved 1 of 2 times: t0, t1, t2')
  assert.equal(reason(5), 'the gold patch resolved 1 of 2 times: t0, t1, t2 and 2 more')
  assert.equal(reason(0), 'the gold patch resolved 1 of 2 times')
})

test('names only tests of the check that differed as the reason', () => {
  const checks = [
    gold(1),
    empty(1),
    gold(2, { verdict: 'unresolved', notPassed: { t9: 'FAILED' } }),
    empty(2, { notPassed: { t1: 'FAILED', t2: 'ERROR' } }),
  ]
  const judged = judgeGate({ checks, repeats: 2 })
  assert.equal(judged.reason, 'the gold patch resolved 1 of 2 times: t9')
  assert.deepEqual(
    judged.flips.map(({ check, test }) => `${check} ${test}`),
    ['gold t9', 'empty t2'],
  )
})

test('repeats without a verdict make no test flaky', () => {
  const lost = { verdict: 'could-not-grade', reason: 'image', notPassed: { t5: 'MISSING' } } as const
  const judged = judgeGate({ checks: [gold(1), gold(2, lost), gold(3), empty(1)], repeats: 3 })
  assert.deepEqual(judged.flips, [])
  assert.deepEqual(judgeGate({ checks: [gold(1, lost), empty(1)], repeats: 1 }).flips, [])
})

test('finds an exception with trailing blanks, but not after other text', () => {
  assert.deepEqual(exceptionsIn('pkg.OddError   \r\nE   ValueError: x\n  KeyError\nE          TypeError'), {
    OddError: 1,
    ValueError: 1,
  })
})

test('names the side of a lost grading when the sides have unequal repeats', () => {
  const lost = { verdict: 'could-not-grade', reason: 'image', notPassed: {} } as const
  const judged = (checks: GradedCheck[]) => judgeGate({ checks, repeats: 5 }).reason
  assert.equal(
    judged([gold(1, lost), empty(1), gold(2), gold(3)]),
    'the gold patch could not be graded in 1 of 3 (image)',
  )
  assert.equal(
    judged([gold(1), empty(1, lost), empty(2), empty(3), gold(2), empty(4)]),
    'the empty patch could not be graded in 1 of 4 (image)',
  )
})

test('under the gold patch every listed test that differs is flaky, even one that never passed', () => {
  const checks = [
    gold(1, { notPassed: { t2: 'XFAIL' } }),
    empty(1),
    gold(2, { notPassed: { t2: 'SKIPPED' } }),
    empty(2),
  ]
  const judged = judgeGate({ checks, repeats: 2 })
  assert.deepEqual([judged.outcome, judged.reason], ['flaky', 'listed tests ended differently: t2'])
})

test('failures of one check never give up the other check', () => {
  // Gold failed twice of twice; the empty check failed once and held once: three failures, and none of them three of one.
  const solved = { verdict: 'resolved', notPassed: {} } as const
  const checks = [gold(1, fails), empty(1, solved), gold(2, fails), empty(2)]
  assert.deepEqual(nextGateCheck({ checks, repeats: 9, stopAtFirst: false }), { check: 'gold', repeat: 3 })
  const two = [gold(1, fails), empty(1, solved), gold(2, fails)]
  assert.deepEqual(nextGateCheck({ checks: two, repeats: 9, stopAtFirst: false }), { check: 'empty', repeat: 2 })
})

const audited = (outcome: AuditOutcome, detail: string | null = null): Partial<GradedCheck> => ({
  audit: { outcome, reasons: outcome === 'void' ? ['no-honest-pass'] : [], detail, auditMs: 5 },
})

test('refuses a task whose gold patch no audit confirms where only audited rewards are paid', () => {
  const judged = (checks: GradedCheck[], needsAudit = true) => judgeGate({ checks, repeats: 2, needsAudit })
  const empties = [empty(1), empty(2)]
  const agreed = [gold(1, audited('agrees')), gold(2, audited('agrees')), ...empties]
  assert.equal(judged(agreed).outcome, 'passed')
  const split = [gold(1, audited('agrees')), gold(2, audited('void', 'tests/test_a.py::test_b')), ...empties]
  assert.deepEqual(
    [judged(split).outcome, judged(split).reason],
    [
      'not-auditable',
      'the audit of the gold patch disagreed in 1 of 2 gradings (no-honest-pass: tests/test_a.py::test_b)',
    ],
  )
  assert.equal(judged(split, false).outcome, 'passed')
  const unsupported = [gold(1, audited('unsupported')), empty(1)]
  assert.match(judged(unsupported).reason ?? '', /no audit exists for its test runner.*unauditedRewards: allow/)
  assert.equal(nextGateCheck({ checks: unsupported, repeats: 2, stopAtFirst: false, needsAudit: true }), null)
  assert.deepEqual(nextGateCheck({ checks: unsupported, repeats: 2, stopAtFirst: false }), { check: 'gold', repeat: 2 })
  assert.match(judged([gold(1), gold(2), ...empties]).reason ?? '', /without an audit; gate the suite again/)
})

test('audits only the gold patch, and only where an audit is needed', () => {
  const next = (checks: GradedCheck[], needsAudit: boolean) =>
    nextGateCheck({ checks, repeats: 2, stopAtFirst: true, needsAudit })
  assert.deepEqual(next([gold(1, audited('agrees')), empty(1)], true), { check: 'gold', repeat: 2 })
  assert.deepEqual(next([gold(1, audited('agrees')), empty(1, audited('void'))], true), { check: 'gold', repeat: 2 })
  assert.equal(next([gold(1, audited('void')), empty(1)], true), null)
  assert.deepEqual(next([gold(1, audited('void')), empty(1)], false), { check: 'gold', repeat: 2 })
  assert.deepEqual(next([gold(1), empty(1)], false), { check: 'gold', repeat: 2 })
})

test('reports the audit of a gold patch with its reasons, and its detail when there is one', () => {
  const judged = (...checks: GradedCheck[]) =>
    judgeGate({ checks: [...checks, empty(1), empty(2)], repeats: 2, needsAudit: true }).reason
  const twice = {
    audit: { outcome: 'void', reasons: ['no-honest-pass', 'canary-failed'], detail: null, auditMs: 5 },
  } as const
  assert.equal(
    judged(gold(1, { audit: { ...twice.audit, reasons: [...twice.audit.reasons] } }), gold(2, audited('agrees'))),
    'the audit of the gold patch disagreed in 1 of 2 gradings (no-honest-pass, canary-failed)',
  )
  // The first grading is of a version that knew no audit.
  assert.equal(
    judged(gold(1), gold(2, audited('void'))),
    'the audit of the gold patch disagreed in 2 of 2 gradings (no-honest-pass)',
  )
})
