import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  commandMessage,
  commandProperty,
  cut,
  logText,
  markdownText,
  oneLine,
  plainJson,
  showControls,
  xmlAttribute,
  xmlText,
} from './hostile-text.ts'

const CASES: [string, (text: string) => string, string, string][] = [
  ['colours', showControls, '\u001b[31mred\u001b[0m', 'red'],
  ['a title sequence', showControls, 'a\u001b]0;own\u0007b', 'ab'],
  ['a link sequence', showControls, '\u001b]8;;https://evil.test\u001b\\here\u001b]8;;\u001b\\', 'here'],
  ['a short sequence', showControls, 'a\u001bcb', 'ab'],
  ['an unfinished sequence', showControls, 'a\u001b[', 'a\\u{1b}['],
  ['a cut sequence that joins to another', showControls, '\u001b\u001b[31m[31mx', '\\u{1b}[31mx'],
  ['controls of C1', showControls, 'a\u009b31mb', 'a\\u{9b}31mb'],
  ['a turned text', showControls, 'user\u202eresu', 'user\\u{202e}resu'],
  ['invisible characters', showControls, 'a\u200bb\ufeffc', 'a\\u{200b}b\\u{feff}c'],
  ['tags beyond the first plane', showControls, 'a\u{e0041}b', 'a\\u{e0041}b'],
  ['half a character', showControls, 'a\ud83db', 'a\\u{d83d}b'],
  ['a whole one', showControls, 'a😀b', 'a😀b'],
  ['lines', oneLine, 'a\r\nb\n\n\tc', 'a b c'],
  ['blanks around a text', oneLine, ' a\n', 'a'],
  ['a carriage return that overwrites', oneLine, 'bad\rgood', 'bad\\u{d}good'],
  ['HTML', markdownText, '<img src=x>', '&#60;img src&#61;x&#62;'],
  ['a table cell', markdownText, 'a|b', 'a&#124;b'],
  ['an image', markdownText, '![x](y)', '&#33;&#91;x&#93;&#40;y&#41;'],
  ['a link by itself', markdownText, 'https://evil.test', 'https&#58;//evil&#46;test'],
  ['a mention and an issue', markdownText, '@all #1', '&#64;all &#35;1'],
  ['emphasis', markdownText, '**a** __b__ c_d', '&#42;&#42;a&#42;&#42; &#95;&#95;b&#95;&#95; c_d'],
  ['a task id', markdownText, 'django__django-1', 'django__django-1'],
  ['an entity', markdownText, '&lt;', '&#38;lt&#59;'],
  ['markup in XML', xmlText, `<a b="c">&'`, "&lt;a b=&quot;c&quot;&gt;&amp;'"],
  ['the end of a section in XML', xmlText, ']]>', ']]&gt;'],
  ['what XML forbids', xmlText, 'a\u0000b\uffffc', 'a\\u{0}b\\u{ffff}c'],
  ['an attribute', xmlAttribute, 'a\n"b"', 'a &quot;b&quot;'],
  ['the message of a command', commandMessage, 'a\n::error::b%0A', 'a ::error::b%250A'],
  ['the property of a command', commandProperty, 'a,file=b:c%', 'a%2Cfile=b%3Ac%25'],
  [
    'a command in a log',
    logText,
    'a\n::set-output name=x::y\n  ::error::z',
    'a\n\\::set-output name=x::y\n  \\::error::z',
  ],
  ['old commands in a log', logText, 'x ##[error]y ##vso[task.complete]', 'x #\\#[error]y #\\#vso[task.complete]'],
  ['colons inside of a line', logText, 'a::b', 'a::b'],
  ['a line that overwrites itself into a command', logText, 'x\r::error::y', 'x\\u{d}::error::y'],
]

for (const [what, make, text, expected] of CASES) {
  test(`${make.name} of ${what}`, () => assert.equal(make(text), expected))
}

test('cuts a text of ten megabytes quickly and between characters', () => {
  assert.equal(oneLine('😀'.repeat(5_000_000), 10), '😀😀😀😀…')
})

test('JSON text keeps its value and has no command of a CI job, of however many signs', () => {
  for (const signs of ['##', '###', '####', '#####']) {
    const value = { [`${signs}vso[a]`]: `x${signs}[error]\u001b[0m\u202e` }
    const text = plainJson(JSON.stringify(value))
    assert.doesNotMatch(text, /##/, signs)
    assert.deepEqual(JSON.parse(text), value)
  }
})

test('keeps a text of exactly the length whole', () => {
  assert.equal(cut('abc', 3), 'abc')
  assert.equal(cut('abcd', 3), 'ab…')
})

test('only a character at the end of the cut text moves the cut', () => {
  assert.equal(cut('😀abcdef', 6), '😀abc…')
  assert.equal(cut('abc😀defgh', 5), 'abc…')
})

test('JSON text escapes hidden characters with four digits for each half', () => {
  assert.equal(plainJson('"\u00ad\u{e0041}"'), String.raw`"\u00ad\udb40\udc41"`)
})
