import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Task } from '../contracts/tasks.types.ts'
import { asItCounts, judgeOverrun, judgeRun } from './verdict.ts'

const task = {
  failToPass: ['tests/test_s.py::test_a'],
  passToPass: ['tests/test_s.py::test_b', 'tests/test_s.py::test_c'],
  installConfig: { install: null, testCmd: 'pytest -rA', logParser: 'parse_log_pytest' },
  gradingProfile: 'fork-4.0.3' as Task['gradingProfile'],
}

/** What the script's xtrace and pytest write into one stream. */
const pytestLog = (summary: string): string => `+ git status
On branch main
nothing to commit, working tree clean
+ git apply -v -
Checking patch tests/test_s.py...
Applied patch tests/test_s.py cleanly.
+ : '>>>>> Start Test Output'
+ LANG=C.UTF-8
+ LC_ALL=C.UTF-8
+ python3 -m pytest -rA tests/test_s.py
============================= test session starts ==============================
platform linux -- Python 3.11.2, pytest-7.2.1, pluggy-1.0.0
rootdir: /testbed
collected 3 items

tests/test_s.py ...                                                      [100%]

=========================== short test summary info ============================
${summary}
============================== 3 passed in 0.02s ===============================
+ : '>>>>> End Test Output'
+ git checkout abc
`
const ran = (log: string) => ({ kind: 'ran' as const, log: new TextEncoder().encode(log) })
const line = (status: string, name: string, rest = ''): string => `${status} tests/test_s.py::test_${name}${rest}`

test('is resolved when all listed tests pass', () => {
  const log = pytestLog([line('PASSED', 'a'), line('PASSED', 'b'), line('XFAIL', 'c', ' - known')].join('\n'))
  const verdict = judgeRun(task, ran(log))
  assert.equal(verdict.kind, 'resolved')
  assert.deepEqual(verdict.failToPass, { passed: 1, total: 1 })
  assert.deepEqual(verdict.passToPass, { passed: 2, total: 2 })
})

test('is unresolved with the count when a listed test fails or is absent', () => {
  const failed = judgeRun(
    task,
    ran(pytestLog([line('PASSED', 'b'), line('PASSED', 'c'), line('FAILED', 'a', ' - assert 1 == 2')].join('\n'))),
  )
  assert.deepEqual([failed.kind, failed.reason, failed.failToPass.passed], ['unresolved', null, 0])
  const absent = judgeRun(task, ran(pytestLog([line('PASSED', 'a'), line('PASSED', 'b')].join('\n'))))
  assert.deepEqual([absent.kind, absent.passToPass], ['unresolved', { passed: 1, total: 2 }])
})

test('is unresolved when a module no longer compiles, and the error line is a result', () => {
  const verdict = judgeRun(task, ran(pytestLog('ERROR tests/test_s.py - SyntaxError: invalid syntax')))
  assert.deepEqual([verdict.kind, verdict.reason], ['unresolved', null])
})

test('ignores results printed outside the markers', () => {
  const forged = `${['a', 'b', 'c'].map((name) => line('PASSED', name)).join('\n')}\n`
  assert.equal(judgeRun(task, ran(forged + pytestLog(line('FAILED', 'a')))).kind, 'unresolved')
  assert.equal(judgeRun(task, ran(pytestLog(line('FAILED', 'a')) + forged)).kind, 'unresolved')
})

test('has no results, and is worth one repetition, without markers or with a void log or an empty map', () => {
  const cut = pytestLog('').split("+ : '>>>>> End")[0] ?? ''
  for (const log of ['', cut, `${pytestLog(line('PASSED', 'a'))}>>>>> Tests Timed Out`, pytestLog('')]) {
    const verdict = judgeRun(task, ran(log))
    assert.deepEqual([verdict.kind, verdict.reason, verdict.mayRepeat], ['unresolved', 'no-results', true])
    assert.deepEqual([verdict.subset, verdict.tests === null], [null, log !== pytestLog('')])
  }
})

test('an infrastructure failure is no verdict on the patch', () => {
  const log = new Uint8Array()
  assert.equal(judgeRun(task, { kind: 'patch-did-not-apply', log }).reason, 'patch-rejected')
  assert.equal(judgeRun(task, { kind: 'timed-out', log }).reason, 'tests-timed-out')
  const undecodable = judgeRun(task, { kind: 'ran', log: new Uint8Array([0xff]) })
  assert.deepEqual([undecodable.kind, undecodable.reason], ['could-not-grade', 'undecodable-log'])
})

test('skipped tests leave both lists, so that a list of skipped tests is complete, like upstream', () => {
  const log = pytestLog([line('SKIPPED', 'a'), line('PASSED', 'b'), line('PASSED', 'c')].join('\n'))
  const verdict = judgeRun(task, ran(log))
  assert.equal(verdict.kind, 'resolved')
  assert.deepEqual(verdict.failToPass, { passed: 0, total: 1 })
})

test('swebench-5: the exit code that the script prints voids passed tests', () => {
  const log = pytestLog([line('PASSED', 'a'), line('PASSED', 'b'), line('PASSED', 'c')].join('\n'))
  const five = { ...task, gradingProfile: 'swebench-5' as const }
  assert.equal(judgeRun(five, ran(`${log}>>>>> Test Exit Code: 0\n`)).kind, 'resolved')
  const failed = judgeRun(five, ran(`${log}>>>>> Test Exit Code: 1\n`))
  assert.deepEqual([failed.kind, failed.reason], ['unresolved', 'no-results'])
})

test('rebench-v2: only equal lists resolve, and whether the listed tests passed is recorded beside it', () => {
  const v2 = {
    failToPass: ['TestA (0.1s)'],
    passToPass: ['TestB'],
    installConfig: { install: null, testCmd: 'go test -v', logParser: 'parse_log_gotest' },
    gradingProfile: 'rebench-v2' as const,
  }
  const passed = (...names: string[]): string => names.map((name) => `--- PASS: ${name} (0.01s)\n`).join('')
  const judge = (log: string) => {
    const { kind, subset, failToPass, passToPass } = judgeRun(v2, ran(log))
    return [kind, subset, failToPass.passed, passToPass.passed]
  }
  assert.deepEqual(judge(passed('TestA', 'TestB')), ['resolved', true, 1, 1])
  assert.deepEqual(judge(passed('TestA', 'TestB', 'TestC')), ['unresolved', true, 1, 1])
  assert.deepEqual(judge(passed('TestB')), ['unresolved', false, 0, 1])
  assert.equal(judgeRun(v2, ran('nothing ran')).reason, 'no-results')
})

test('states what prevents a verdict and whether a repetition may help, with no listed test passed', () => {
  const log = new Uint8Array()
  const none = {
    kind: 'could-not-grade',
    failToPass: { passed: 0, total: 1 },
    passToPass: { passed: 0, total: 2 },
    tests: null,
    subset: null,
  }
  assert.deepEqual(judgeRun(task, { kind: 'patch-did-not-apply', log }), {
    ...none,
    reason: 'patch-rejected',
    mayRepeat: false,
  })
  assert.deepEqual(judgeRun(task, { kind: 'timed-out', log }), {
    ...none,
    reason: 'tests-timed-out',
    mayRepeat: true,
  })
  assert.equal(judgeRun(task, { kind: 'ran', log: new Uint8Array([0xff]) }).mayRepeat, true)
  assert.deepEqual(judgeOverrun(task), { ...none, reason: 'deadline', mayRepeat: false })
})

test('a verdict is final, resolved or not', () => {
  const passed = judgeRun(task, ran(pytestLog(['a', 'b', 'c'].map((name) => line('PASSED', name)).join('\n'))))
  assert.deepEqual([passed.kind, passed.mayRepeat], ['resolved', false])
  const failed = judgeRun(task, ran(pytestLog(line('FAILED', 'a'))))
  assert.deepEqual([failed.kind, failed.mayRepeat, failed.subset], ['unresolved', false, null])
})

test('a test that is not named has passed in a suite whose logs name only failures', () => {
  const failOnly = {
    ...task,
    gradingProfile: 'swebench-5' as const,
    harness: { version: null, evalScript: null, evalType: 'fail_only' as const, language: null },
  }
  const log = pytestLog(line('PASSED', 'b'))
  assert.equal(judgeRun(failOnly, ran(log)).kind, 'resolved')
  const both = { ...failOnly, harness: { ...failOnly.harness, evalType: 'pass_and_fail' as const } }
  assert.equal(judgeRun(both, ran(log)).kind, 'unresolved')
  const unsaid = { ...failOnly, harness: { ...failOnly.harness, evalType: null } }
  assert.equal(judgeRun(unsaid, ran(log)).kind, 'unresolved')
})

test('a task without listed tests is resolved by a log without results', () => {
  const empty = { ...task, failToPass: [], passToPass: [] }
  const verdict = judgeRun(empty, ran(pytestLog('')))
  assert.deepEqual([verdict.kind, verdict.reason, verdict.mayRepeat], ['resolved', null, false])
})

test('rebench-v2: a listed test that no longer passes leaves the subset, on either list', () => {
  const v2 = {
    failToPass: ['TestA'],
    passToPass: ['TestB'],
    installConfig: { install: null, testCmd: 'go test -v', logParser: 'parse_log_gotest' },
    gradingProfile: 'rebench-v2' as const,
  }
  const verdict = judgeRun(v2, ran('--- PASS: TestA (0.01s)\n--- FAIL: TestB (0.01s)\n'))
  assert.deepEqual([verdict.subset, verdict.reason, verdict.mayRepeat], [false, null, false])
})

test('a patch that harms its own grading fails, and faults of the row or of ours give no verdict', () => {
  const counts = (reason: string | null) => asItCounts({ kind: 'could-not-grade' as const, reason }).kind
  for (const reason of ['patch-rejected', 'undecodable-log', 'parser-raised', 'deadline']) {
    assert.equal(counts(reason), 'unresolved', reason)
  }
  for (const reason of ['unknown-parser', 'unsupported-parser', 'image', 'Sandbox.Lost', 'tests-timed-out', null]) {
    assert.equal(counts(reason), 'could-not-grade', String(reason))
  }
  assert.deepEqual(asItCounts({ kind: 'resolved', reason: 'deadline' }), { kind: 'resolved', reason: 'deadline' })
  assert.deepEqual(asItCounts({ kind: 'could-not-grade', reason: 'deadline', gradeMs: 3 }), {
    kind: 'unresolved',
    reason: 'deadline',
    gradeMs: 3,
  })
})
