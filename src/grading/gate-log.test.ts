import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readGateLog } from './gate-log.ts'

const TASK = {
  gradingProfile: 'fork-4.0.3' as const,
  installConfig: { install: null, testCmd: 'pytest -rA', logParser: 'parse_log_pytest' },
  failToPass: ['tests/a.py::test_one', 'tests/a.py::test_two'],
  passToPass: ['tests/a.py::test_three', 'tests/a.py::test_four'],
}
const read = (lines: string[]) => readGateLog(TASK, Buffer.from(`${lines.join('\n')}\n`))

test('names listed tests that did not pass with their status, and absent ones as missing', () => {
  const { notPassed } = read([
    '>>>>> Start Test Output',
    'PASSED tests/a.py::test_one',
    'FAILED tests/a.py::test_two - AssertionError',
    'SKIPPED tests/a.py::test_three',
    'FAILED tests/a.py::test_unlisted - x',
    '>>>>> End Test Output',
  ])
  assert.equal(notPassed['tests/a.py::test_two'], 'FAILED')
  assert.equal(notPassed['tests/a.py::test_four'], 'MISSING')
  assert.deepEqual(Object.keys(notPassed).toSorted(), [
    'tests/a.py::test_four',
    'tests/a.py::test_three',
    'tests/a.py::test_two',
  ])
})

test('a log without results misses every listed test', () => {
  assert.deepEqual(Object.values(readGateLog(TASK, Buffer.from('')).notPassed), Array(4).fill('MISSING'))
})

test('a test that is called __proto__ is named like any other', () => {
  const task = { ...TASK, failToPass: ['__proto__'], passToPass: [] }
  assert.deepEqual(Object.entries(readGateLog(task, Buffer.from('FAILED __proto__ - x\n')).notPassed), [
    ['__proto__', 'MISSING'],
  ])
})

test('a log that is no text misses every listed test', () => {
  assert.deepEqual(Object.values(readGateLog(TASK, Buffer.from([0xff])).notPassed), Array(4).fill('MISSING'))
})

test('ignores a time in a listed name where the log is read without times', () => {
  const go = {
    gradingProfile: 'rebench-v2' as const,
    installConfig: { install: null, testCmd: 'go test -v', logParser: 'parse_log_gotest' },
    failToPass: ['TestOne (0.1s)', 'TestTwo (0.1s)'],
    passToPass: [],
  }
  const log = '--- PASS: TestOne (0.02s)\n--- FAIL: TestTwo (0.02s)\n'
  assert.deepEqual(readGateLog(go, Buffer.from(log)).notPassed, { 'TestTwo (0.1s)': 'FAILED' })
})

test('reads exceptions and names that only hidden tests know from the same log', () => {
  const { exceptions, missedNames } = read([
    "E   ImportError: cannot import name 'total' from 'shop'",
    "E   AttributeError: module 'shop' has no attribute 'tax'",
  ])
  assert.deepEqual(exceptions, { ImportError: 1, AttributeError: 1 })
  assert.deepEqual(missedNames, [
    "E   ImportError: cannot import name 'total' from 'shop'",
    "E   AttributeError: module 'shop' has no attribute 'tax'",
  ])
})
