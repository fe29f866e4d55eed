import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { csvCell, csvHeader, csvRow } from './episode-columns.ts'

test('prefixes a text that a spreadsheet would execute with an apostrophe, and keeps numbers', () => {
  const formulas = ['=cmd|/c calc!A0', '+1', '-1', '@SUM(A1)', ' =1+1', '＝1+1', '\t=1', '\n=1', "'quoted"]
  for (const text of formulas) assert.match(csvCell(text, 'text'), /^"?'/, JSON.stringify(text))
  assert.equal(csvCell(-1.5, 'number'), '-1.5')
  assert.equal(csvCell(-3, 'integer'), '-3')
})

test('escapes invisible and invalid characters and changes nothing else', () => {
  assert.equal(csvCell('a\0b', 'text'), 'a\\u{0}b')
  assert.equal(csvCell('\ud800', 'text'), '\\u{d800}')
  assert.equal(csvCell('x\u202eelif.exe', 'text'), 'x\\u{202e}elif.exe')
  assert.equal(csvCell('\u001b[31mred', 'text'), '\\u{1b}[31mred')
  assert.equal(csvCell('\r=1', 'text'), '\\u{d}=1')
  assert.equal(csvCell('Zürich 東京 🙂', 'text'), '"Zürich 東京 🙂"')
})

test('quotes texts with quotes, commas, semicolons and line feeds, and distinguishes empty from absent', () => {
  assert.equal(csvCell('a "b", c', 'text'), '"a ""b"", c"')
  assert.equal(csvCell('a\nb', 'text'), '"a\nb"')
  assert.equal(csvCell('a;=1', 'text'), '"a;=1"')
  assert.equal(csvCell('', 'text'), '""')
  assert.equal(csvCell(null, 'text'), '')
})

test('writes times as ISO in UTC and ends lines with CRLF', () => {
  const columns = [
    { name: 'a', type: 'time' },
    { name: 'b', type: 'boolean' },
  ] as const
  assert.equal(csvHeader(columns) + csvRow(columns, [1000, false]), 'a,b\r\n1970-01-01T00:00:01.000Z,false\r\n')
})

test('no text ends its line or cell, or starts a formula', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
      const cell = csvCell(text, 'text')
      const inner = cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '') : cell
      assert.doesNotMatch(inner, /["\r\0]/)
      if (!cell.startsWith('"')) assert.doesNotMatch(cell, /[,;\s]/)
      assert.doesNotMatch(inner, /^\s*[=+\-@]/)
      assert.ok(cell.isWellFormed())
    }),
    { numRuns: 2_000 },
  )
})
