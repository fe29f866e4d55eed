import assert from 'node:assert/strict'
import { test } from 'node:test'

import { isInconsistentLog } from './log-signs.ts'

const HEADER = '============================= test session starts =============================='
const end = (counts: string): string => `========================= ${counts} in 0.12s =========================`

function log(...lines: string[]): Uint8Array {
  const all = ["+ : '>>>>> Start Test Output'", ...lines, "+ : '>>>>> End Test Output'", '']
  return Buffer.from(all.join('\n'))
}

test('a complete session gives no contradiction, green or red, in colour or twice', () => {
  assert.ok(!isInconsistentLog(log(HEADER, 'PASSED t.py::a', 'PASSED t.py::b', end('2 passed'))))
  assert.ok(!isInconsistentLog(log(HEADER, 'PASSED t.py::a', 'FAILED t.py::b - x', end('1 failed, 1 passed'))))
  assert.ok(
    !isInconsistentLog(log(HEADER, '\u001B[32mPASSED\u001B[0m t.py::a', `\u001B[32m${end('1 passed')}\u001B[0m`)),
  )
  assert.ok(
    !isInconsistentLog(log(HEADER, 'PASSED t.py::a', end('1 passed'), HEADER, 'PASSED u.py::a', end('1 passed'))),
  )
})

test('reports results of a session that never ended', () => {
  assert.ok(isInconsistentLog(log(HEADER, 'PASSED t.py::a')))
})

test('reports more session ends than sessions', () => {
  assert.ok(isInconsistentLog(log(HEADER, 'PASSED t.py::a', end('1 passed'), end('1 failed'))))
})

test('reports more passed tests than the session counted', () => {
  assert.ok(isInconsistentLog(log(HEADER, 'PASSED t.py::a', 'PASSED t.py::b', end('1 failed, 1 passed'))))
  assert.ok(isInconsistentLog(log(HEADER, 'PASSED t.py::a', end('1 failed'))))
})

test('a session without results, another test tool and a log without markers give no contradiction', () => {
  assert.ok(!isInconsistentLog(log(HEADER, 'collecting ...', 'Segmentation fault')))
  assert.ok(!isInconsistentLog(log('ok', 'PASSED t.py::a')))
  assert.ok(!isInconsistentLog(Buffer.from(`${HEADER}\nPASSED t.py::a\n`)))
})

test('accepts every word that a session can end with', () => {
  for (const counts of ['1 error', '2 errors', '1 skipped', '1 xfailed', '1 xpassed', '1 deselected', 'no tests ran']) {
    assert.ok(isInconsistentLog(log(HEADER, 'PASSED t.py::a', end('1 passed'), end(counts))), counts)
  }
})

test('reads counts of several digits and colours of several numbers whole', () => {
  const passed = Array.from({ length: 12 }, (_, index) => `PASSED t.py::t${index}`)
  assert.ok(!isInconsistentLog(log(HEADER, ...passed, end('12 passed'))))
  assert.ok(isInconsistentLog(log(HEADER, ...passed, end('11 passed'))))
  const coloured = `\u001B[1;32m${end('1 passed')}\u001B[0m`
  assert.ok(!isInconsistentLog(log(HEADER, 'PASSED t.py::a', coloured)))
})

test('headers, ends and results count only on a line of their own', () => {
  const session = [HEADER, 'PASSED t.py::a', end('1 passed')]
  assert.ok(!isInconsistentLog(log(...session, `x ${HEADER}`)))
  assert.ok(!isInconsistentLog(log(...session, `${HEADER} x`)))
  assert.ok(!isInconsistentLog(log(...session, `x ${end('1 passed')}`)))
  assert.ok(!isInconsistentLog(log(...session, `${end('1 passed')} x`)))
  for (const line of ['== 1 passed in 0.12s!==', '==! 1 passed in 0.12s ==', '== ==', '====']) {
    assert.ok(!isInconsistentLog(log(...session, line)), line)
  }
  assert.ok(!isInconsistentLog(log(...session, 'tests PASSED t.py::b', 'PASSED  t.py::c')))
})

test('the same result printed twice is one result', () => {
  assert.ok(!isInconsistentLog(log(HEADER, 'PASSED t.py::a', 'PASSED t.py::a', end('1 passed'))))
})

test('a byte that is no text hides no contradiction, and is none', () => {
  assert.ok(!isInconsistentLog(Buffer.from([0xff, 0xfe])))
  const bad = Buffer.from([0xff])
  assert.ok(isInconsistentLog(Buffer.concat([bad, log(HEADER, 'PASSED t.py::a'), bad])))
  assert.ok(!isInconsistentLog(Buffer.concat([bad, log(HEADER, 'PASSED t.py::a', end('1 passed')), bad])))
})
