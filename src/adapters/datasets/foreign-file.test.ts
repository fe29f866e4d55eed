import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeForeign, describeNotParquet, weighJson } from './foreign-file.ts'

const bytes = (text: string): Uint8Array => Buffer.from(text, 'latin1')

test('rows of JSON are nothing foreign, whatever stands around them', () => {
  for (const text of ['', '\n\n{"a": 1}', '\xef\xbb\xbf[1]', '{"page": "<!doctype html>"}', '{}', 'a', '[]'])
    assert.equal(describeForeign(bytes(text)), null, text)
})

test('packed files, other encodings, pointers and pages are named by how they begin', () => {
  for (const [start, says] of [
    ['\x1f\x8b\x08', /gzip/],
    ['\x28\xb5\x2f\xfd', /Zstandard/],
    ['BZh9', /bzip2/],
    ['\xfd7zXZ\0', /xz/],
    ['PK\x03\x04', /zip/],
    ['PAR1', /Parquet/],
    ['\xff\xfe{\0', /UTF-16/],
    ['{\0"\0', /UTF-16/],
    ['\0{\0"', /UTF-16/],
    ['version https://git-lfs.github.com/spec/v1\n', /Git LFS/],
    ['\n  <html lang="en">', /website/],
    ['<?xml version="1.0"?>', /website/],
  ] as const)
    assert.match(describeForeign(bytes(start)) ?? '', says, start)
})

test('a file that should be Parquet: its own beginning, lines of JSON, and what is left to the reader', () => {
  assert.equal(describeNotParquet(bytes('PAR1\x15')), null)
  assert.match(describeNotParquet(bytes(' [{"a"')) ?? '', /looks like JSON/)
  assert.match(describeNotParquet(bytes('\x1f\x8b')) ?? '', /gzip/)
  assert.equal(describeNotParquet(bytes('hello')), null)
})

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
