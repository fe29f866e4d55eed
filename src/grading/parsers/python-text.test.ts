/** Python's own answers, from CPython 3.11: `str.strip`, `str.split`, `str.splitlines`, `int`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pythonPattern } from './python-pattern.ts'
import {
  isPythonDigit,
  isZero,
  PythonError,
  pythonItem,
  pythonSplit,
  pythonSplitLines,
  pythonStrip,
  universalNewlines,
} from './python-text.ts'

const SPACES = '\t\n\v\f\r\u001C\u001D\u001E\u001F \u0085\u00A0\u1680\u2000\u200A\u2028\u2029\u202F\u205F\u3000'
const NO_SPACES = '\u0000\u0008\u000E\u001B!\u007F\u0084\u0086\u00A1\u200B\uFEFF'

test('strips exactly the characters that Python takes as white space', () => {
  for (const space of SPACES) {
    assert.equal(pythonStrip(`${space}x${space}`), 'x', `U+${space.charCodeAt(0).toString(16)}`)
    assert.deepEqual(pythonSplit(`a${space}b`), ['a', 'b'])
  }
  for (const other of NO_SPACES) {
    assert.equal(pythonStrip(`${other}x${other}`), `${other}x${other}`, `U+${other.charCodeAt(0).toString(16)}`)
    assert.deepEqual(pythonSplit(`a${other}b`), [`a${other}b`])
  }
  assert.equal(pythonStrip(` ${SPACES} `), '')
  assert.equal(pythonStrip(''), '')
  assert.equal(pythonStrip('a \t b'), 'a \t b')
})

test('splits at runs of white space and gives no empty part', () => {
  assert.deepEqual(pythonSplit('  a \u0085\t b  '), ['a', 'b'])
  assert.deepEqual(pythonSplit(' \t'), [])
})

test('lines end at the same characters as in Python, and an end at the end begins no line', () => {
  const ends = ['\n', '\r', '\r\n', '\v', '\f', '\u001C', '\u001D', '\u001E', '\u0085', '\u2028', '\u2029']
  for (const end of ends) {
    assert.deepEqual(pythonSplitLines(`a${end}b${end}`), ['a', 'b'], JSON.stringify(end))
  }
  assert.deepEqual(pythonSplitLines('a\u001Fb'), ['a\u001Fb'])
  assert.deepEqual(pythonSplitLines('a\n\nb'), ['a', '', 'b'])
  assert.deepEqual(pythonSplitLines('a\n\n'), ['a', ''])
  assert.deepEqual(pythonSplitLines(''), [])
})

test('a file in text mode has one kind of line end', () => {
  assert.equal(universalNewlines('a\r\nb\rc\nd\r'), 'a\nb\nc\nd\n')
  assert.equal(universalNewlines('a\r\r\nb'), 'a\n\nb')
})

test('reads digits of every script, signed or not, and refuses more than 4,300 digits like Python', () => {
  for (const zero of ['0', '00', '-0', '٠', '０', '߀0']) assert.equal(isZero(zero), true, zero)
  for (const other of ['1', '-1', '10', '01', '٣', '０１', '߁', '9']) assert.equal(isZero(other), false, other)
  assert.equal(isZero('0'.repeat(4300)), true)
  assert.equal(isZero(`-${'0'.repeat(4300)}`), true)
  assert.throws(() => isZero('0'.repeat(4301)), /^PythonError: ValueError: Exceeds the limit \(4300 digits\)/)
})

test('raised and circled characters are digits, and an empty text is not', () => {
  for (const digits of ['0', '٣', '²', '①', '1²']) assert.equal(isPythonDigit(digits), true, digits)
  for (const other of ['', '½', 'x', '1x', 'x²', '-1']) assert.equal(isPythonDigit(other), false, other)
})

test('character classes mean the same inside of brackets as outside', () => {
  const spaces = pythonPattern(String.raw`^[\s,]+$`)
  for (const text of [',', '\u001C,\u0085']) assert.equal(spaces.test(text), true, JSON.stringify(text))
  for (const text of ['[', ']', '\uFEFF']) assert.equal(spaces.test(text), false, JSON.stringify(text))
  const words = pythonPattern(String.raw`^[\w.]+$`)
  for (const text of ['é.٣_']) assert.equal(words.test(text), true, text)
  for (const text of ['[', ']', '-']) assert.equal(words.test(text), false, text)
})

test('an absent element raises like a Python list', () => {
  assert.equal(pythonItem(['a', ''], 1), '')
  assert.throws(
    () => pythonItem(['a'], 1),
    (error) => error instanceof PythonError && error.message === 'IndexError: list index out of range',
  )
})
