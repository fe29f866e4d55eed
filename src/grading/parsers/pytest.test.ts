import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pytestOptionsParser, pytestParser, pytestV2Parser, RULES_4 } from './pytest.ts'

const parsePytest = pytestParser(RULES_4)
const parsePytestOptions = pytestOptionsParser(RULES_4)
const parsePytestV2 = pytestV2Parser(RULES_4)

const ESC = '\u001b'
const one = (parse: typeof parsePytest, line: string): [string, string][] => [...parse(line)]

/** line, entry of `pytest`, entry of `pytest_v2`; null = no entry. */
const VECTORS: [string, [string, string] | null, [string, string] | null][] = [
  ['PASSED a.py::t', ['a.py::t', 'PASSED'], ['a.py::t', 'PASSED']],
  ['FAILED a.py::t - E: x - y', ['a.py::t', 'FAILED'], ['a.py::t', 'FAILED']],
  ['PASSED a.py::t[a b]', ['a.py::t[a', 'PASSED'], ['a.py::t[a', 'PASSED']],
  ['FAILED a.py::t[a - b] - boom', ['a.py::t[a', 'FAILED'], ['a.py::t[a', 'FAILED']],
  ['XFAIL a.py::t - why', ['a.py::t', 'XFAIL'], ['a.py::t', 'XFAIL']],
  ['ERROR a.py::t - why', ['a.py::t', 'ERROR'], ['a.py::t', 'ERROR']],
  ['SKIPPED [3] a.py:1: r', ['[3]', 'SKIPPED'], ['[3]', 'SKIPPED']],
  ['PASSED [100%]', ['[100%]', 'PASSED'], ['[100%]', 'PASSED']],
  ['FAILED to connect', ['to', 'FAILED'], ['to', 'FAILED']],
  ['ERROR: usage: pytest', ['usage:', 'ERROR:'], ['usage:', 'ERROR:']],
  ['FAILED - a::b', ['a::b', 'FAILED'], ['a::b', 'FAILED']],
  ['a.py::t PASSED', null, ['a.py::t', 'PASSED']],
  ['a.py::t[a b] PASSED', null, ['a.py::t[a', 'b]']],
  ['4 passed, 1 ERROR', null, ['4', 'passed,']],
  [`${ESC}[32mPASSED${ESC}[0m a.py::t`, null, ['a.py::t', 'PASSED']],
  [`${ESC}[1;31mFAILED${ESC}[0m a.py::t`, null, null],
  ['PASSED\ta.py::t', ['a.py::t', 'PASSED'], null],
  ['PASSED\u0085a.py::t', ['a.py::t', 'PASSED'], ['a.py::t', 'PASSED']],
  ['PASSED\u001Fa.py::t', ['a.py::t', 'PASSED'], null],
  ['PASSED\u00A0a.py::t', ['a.py::t', 'PASSED'], ['a.py::t', 'PASSED']],
  ['PASSED\uFEFFa.py::t', null, null],
  ['a.py::t PASSED [ 50%]', null, null],
  ['[gw0] [ 50%] PASSED a.py::t', null, null],
  ['XPASS a.py::t', null, null],
  ['PASSED', null, null],
  ['XPASSED', null, null],
  ['\tPASSED a', null, ['a', 'PASSED']],
  ['PASSED\tz q', ['z', 'PASSED'], ['q', 'PASSEDz']],
  ['PASSED id[12mx]', ['id[12mx]', 'PASSED'], ['idx]', 'PASSED']],
]

for (const [line, plain, second] of VECTORS) {
  test(`reads the summary line ${JSON.stringify(line)} like upstream`, () => {
    assert.deepEqual(one(parsePytest, line), plain === null ? [] : [plain], 'parse_log_pytest')
    assert.deepEqual(one(parsePytestV2, line), second === null ? [] : [second], 'parse_log_pytest_v2')
  })
}

test('parameters that are paths keep only their last part', () => {
  const id = (text: string): string | undefined => one(parsePytestOptions, `PASSED ${text}`)[0]?.[0]
  assert.equal(id('t[/x/y]'), 't[/y]')
  assert.equal(id('t[//x/y]'), 't[//x/y]')
  assert.equal(id('t[/x/*]'), 't[/x/*]')
  assert.equal(id('t[/x/y]z'), 't[/y]')
  assert.equal(id('t[x][/a/b]'), 't[x][/a/b]')
  assert.equal(id('t[x]tail'), 't[x]')
})

test('a later line about the same test overrides, and unusual ids are ordinary keys', () => {
  assert.equal(parsePytest('PASSED a\nERROR a - teardown').get('a'), 'ERROR')
  assert.deepEqual([...parsePytest('PASSED __proto__\nFAILED constructor').keys()], ['__proto__', 'constructor'])
})
