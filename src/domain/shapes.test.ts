import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Check,
  isCount,
  isFlag,
  isId,
  isNestedBeyond,
  isNumber,
  isObject,
  isText,
  listOf,
  oneOf,
  optional,
  recordOf,
  shape,
} from './shapes.ts'

const CASES: [what: string, check: Check, accepted: unknown[], refused: unknown[]][] = [
  ['a text', isText, ['', 'a'], [1, null, undefined, ['a']]],
  ['a flag', isFlag, [true, false], [0, 'true', null, undefined]],
  ['a number', isNumber, [0, -1.5], [Number.NaN, Infinity, '1', 1n, null]],
  ['a count', isCount, [0, 7], [-1, 1.5, 2 ** 53, Infinity, '1', null]],
  ['an object', isObject, [{}, { a: 1 }], [null, [], 'a', undefined]],
  ['an id', isId, ['a', 'a'.repeat(1_000)], ['', 'a'.repeat(1_001), 1, ['a'], undefined]],
  ['one of two values', oneOf('a', 1), ['a', 1], ['b', '1', undefined]],
  ['an optional text', optional(isText), [undefined, null, 'a'], [1, false]],
  ['a list of texts', listOf(isText), [[], ['a', 'b']], [['a', 1], { 0: 'a' }, 'a', null]],
  ['a record of texts', recordOf(isText), [{}, { a: 'a', b: 'b' }], [{ a: 'a', b: 1 }, ['a'], 'a', null]],
  [
    'a shape',
    shape({ a: isText, b: optional(isText) }),
    [{ a: 'a' }, { a: 'a', b: 'b' }, { a: 'a', further: 1 }],
    [{}, { a: 'a', b: 1 }, { b: 'b' }, null, [], 'a'],
  ],
]

for (const [what, check, accepted, refused] of CASES) {
  test(`tells ${what} from other values`, () => {
    for (const value of accepted) assert.equal(check(value), true, JSON.stringify(value))
    for (const value of refused) assert.equal(check(value), false, String(value))
  })
}

test('objects and lists nest only as deep as they contain each other', () => {
  // The list is the first level, the object the second.
  const value = [1, 'text', null, { a: 1, b: null }]
  assert.equal(isNestedBeyond(value, 1), true)
  assert.equal(isNestedBeyond(value, 2), false)
})

test('a value without parts is never nested, whatever it is', () => {
  for (const value of [1, 'text', null, undefined, {}, []]) assert.equal(isNestedBeyond(value, 0), false)
})

test('the deepest of several parts counts', () => {
  assert.equal(isNestedBeyond({ a: [], b: { c: [[1]] }, d: 'text' }, 3), true)
  assert.equal(isNestedBeyond({ a: [], b: { c: [[1]] }, d: 'text' }, 4), false)
})

test('bytes have no parts', () => {
  assert.equal(isNestedBeyond([new Uint8Array(3)], 1), false)
})

test('a value that contains itself is nested beyond any limit', () => {
  const value: unknown[] = []
  value.push(value)
  assert.equal(isNestedBeyond(value, 50), true)
})
