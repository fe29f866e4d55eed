import assert from 'node:assert/strict'
import { test } from 'node:test'
import { weighJson } from './json-weight.ts'

test('elements weigh one, lists and objects eight, and texts nothing, whatever they hold', () => {
  for (const [text, weight] of [
    ['', 0],
    ['1', 0],
    ['[]', 8],
    ['{"a": [1, 2, 3]}', 18],
    ['{"a": "[[[,,,{{{"}', 8],
    [String.raw`{"a": "\"[[[,\\", "b": 1}`, 9],
    ['[1]\n[2]\n', 18],
    // The first line is damaged, and must not hide the second.
    ['{"a": "\n[[],[]]', 34],
    ['"\\\n[[],[]]', 26],
  ] as const) {
    assert.equal(weighJson(text, Number.POSITIVE_INFINITY), weight, text)
  }
})

test('counting stops soon after the limit', () => {
  assert.equal(weighJson('[],'.repeat(1_000), 20), 26)
})
