import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gateRepeats, type GradedCheck, judgeGate, nextGateCheck } from './gate-rules.ts'
import { missedNameLines } from './hidden-names.ts'
import { exceptionsIn } from './log-exceptions.ts'

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

test('gold fails each time, or the empty patch resolves each time: said so, with the reason of the log', () => {
  const failing = judgeGate({ checks: [gold(1, { ...fails, reason: 'no-results' }), empty(1)], repeats: 1 })
  assert.deepEqual(
    [failing.outcome, failing.reason],
    ['gold-fails', 'the gold patch was unresolved (no-results), expected resolved'],
  )
  const open = judgeGate({ checks: [gold(1), empty(1, { verdict: 'resolved', notPassed: {} })], repeats: 1 })
  assert.equal(open.outcome, 'empty-resolves')
})

test('a check that differs between repeats is flaky, and the tests that flip are named with their statuses', () => {
  const checks = [gold(1), empty(1), gold(2, fails), empty(2), gold(3), empty(3)]
  const judged = judgeGate({ checks, repeats: 3 })
  assert.equal(judged.outcome, 'flaky')
  assert.equal(judged.reason, 'the gold patch resolved 2 of 3 times: t1')
  assert.deepEqual(judged.flips, [{ check: 'gold', test: 't1', statuses: { PASSED: 2, FAILED: 1 } }])
})

test('every repeat resolves, but a listed test ends once as an expected failure: flaky all the same', () => {
  const judged = judgeGate({
    checks: [gold(1), empty(1), gold(2, { notPassed: { t2: 'XFAIL' } }), empty(2)],
    repeats: 2,
  })
  assert.deepEqual([judged.outcome, judged.reason], ['flaky', 'listed tests ended differently: t2'])
})

test('the empty patch: a listed test that passes now and then is a coin, one that fails in two ways is only named', () => {
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

test('one grading without a verdict leaves the task ungated, with its share and its reason', () => {
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

test('both patches are graded as often as asked up to three times; raised repeats ask for the missing ones only', () => {
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

test('what cannot end well is given up: a rejected patch at once, a check that failed three times in a row, and the first failure where that is enough', () => {
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
  assert.equal(play(50, once).length, 53, 'one failure is the beginning of a finding')
  const solved = (check: 'gold' | 'empty', repeat: number) =>
    check === 'gold' ? gold(repeat) : empty(repeat, { verdict: 'resolved', notPassed: {} })
  assert.deepEqual(play(50, solved).at(-1), 'empty 3')
})

test('a log names its exceptions, bare and as pytest prints them, and the lines that name what was missed', () => {
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

test('fifty repeats: gold is graded fifty times, the empty patch three times, in turn and then gold alone', () => {
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

test('fewer repeats than the proof needs: both patches are graded as often as asked', () => {
  assert.deepEqual(
    [gateRepeats(1), gateRepeats(2)],
    [
      { gold: 1, empty: 1 },
      { gold: 2, empty: 2 },
    ],
  )
  assert.equal(judgeGate({ checks: [gold(1), gold(2), empty(1)], repeats: 2 }).reason, 'not every check was made')
})

test('one of the three empty gradings passes a test that the others fail: a coin, whatever fifty gold runs say', () => {
  const gradedGold = Array.from({ length: 50 }, (_, index) => gold(index + 1))
  const graded = [empty(1), empty(2, { notPassed: { t1: 'FAILED', t2: 'FAILED' } }), empty(3)]
  assert.match(
    judgeGate({ checks: [...gradedGold, ...graded], repeats: 50 }).reason ?? '',
    /without the gold patch: t2/,
  )
})
