/** Trees, marks, TAP and lists of failures, with what stands between them in logs. */
import { test } from 'node:test'
import { expectRaised, expectStatuses } from '../../../test/support/expect-statuses.ts'
import { parseCalypso, parseChartJs, parseJs3, parseJs4, parseKarma, parseNpx, parseP5js } from './javascript.ts'

const [PASSED, FAILED, SKIPPED] = ['PASSED', 'FAILED', 'SKIPPED'] as const

test("calypso: reads the tree of each of Jest's calls, where a result may consist of a time", () => {
  const call = '+ ./node_modules/.bin/jest -c x.json'
  expectStatuses(parseCalypso, [
    [
      [
        call,
        '  a',
        '    b',
        '      ✓ (3ms)',
        '      ✓ c(d) (12ms)',
        '      ✕ e',
        '  f',
        '    ✓ g',
        '  ● a › e',
        '      ✓ h',
      ],
      { 'a - b -': PASSED, 'a - b - c(d)': PASSED, 'a - b - e': FAILED, 'f - g': PASSED },
    ],
  ])
  expectRaised('ValueError', parseCalypso, call, '  a', '    ✓ b (3ms) late')
})

test('chart.js: reads failures of a browser with text in brackets, up to the end of the line', () => {
  expectStatuses(parseChartJs, [
    [['Chrome 1.2 (Linux) adds FAILED'], { 'adds ': FAILED }],
    [['Chrome 1.2 (Linux) FAILED', 'Chrome 1.2 (Linux) FAILED later'], { '': FAILED }],
    [['Chrome 1.2 (Linux FAILED', 'x) y'], {}],
    [['Chrome 1.2 (Linux', 'x64) adds FAILED'], {}],
    [['Chrome 1 (x', 'Chrome 2 () y) z FAILED', ''], { 'z ': FAILED }],
    [
      ['Chrome 1 (a) b', 'Chrome 2 (c) d FAILED', 'Chrome 3 (e) f SUCCESS', '\u001B[31mChrome 4 (g) h FAILED'],
      { 'd ': FAILED, 'h ': FAILED },
    ],
  ])
})

test('karma: a suite is indented by at least two blanks', () => {
  expectStatuses(parseKarma, [
    [['Starting browser Chrome', ' title', '  ✔ a'], { a: PASSED }],
    [
      ['Starting browser Chrome', '', '  suite', '    ✔ a', '    ✖ b', '    sub', '      ✔ c', '  next', '    ✔ d'],
      {
        'suite > a': PASSED,
        'suite > b': FAILED,
        'suite > sub > c': PASSED,
        'suite > d': PASSED,
      },
    ],
  ])
})

test('p5.js: a failure spans deeper lines to its colon, within a thousand characters', () => {
  const after = (count: number, character: string): string[] => [`1) ${character.repeat(count)}:`]
  expectStatuses(parseP5js, [
    [
      ['  1) suite', '       sub', '         adds:', '    2) other', '      fails:'],
      { 'suite:sub:adds': FAILED, 'other:fails': FAILED },
    ],
    [['  1) suite', ' adds:', '1) a'], {}],
    [['1) no colon'], {}],
    [['1) a: b', '2) c', 'x: y'], { a: FAILED }],
    [['1)x:'], {}],
    [after(999, 'x'), { ['x'.repeat(999)]: FAILED }],
    [after(1000, 'x'), {}],
    [after(999, '😀'), { ['😀'.repeat(999)]: FAILED }],
    [[`1) ${'😀'.repeat(999)} :`], {}],
    [after(2500, 'x'), {}],
  ])
})

test('p5.js: JSON is not part of a failure when its lines begin and end like JSON', () => {
  const inside = (...lines: string[]): string[] => ['  1) suite', ...lines, '       adds:']
  const taken = { 'suite:adds': FAILED }
  expectStatuses(parseP5js, [
    [inside('{"a": 1}', '{"b": 2}  ', '[1]', '[{}]'), taken],
    [inside('{', '"a": 1', '}'), taken],
    [inside('[', '1,', ']'), taken],
    [inside('{', '"a": [', '1', ']', '}'), taken],
    [inside('x = {', '"a": [', '1', '}', ']'), taken],
    [inside('{x'), {}],
    [inside('x}'), {}],
    [inside('[x'), {}],
    [inside('x]'), {}],
    [inside('{x]'), {}],
    [inside('[x}'), {}],
    [inside('}'), {}],
    [inside(']'), {}],
    [
      ['{', '  1) not this:', '}', '  2) but this:', '[', '  3) not this:', ']', '  4) and this:'],
      { 'but this': FAILED, 'and this': FAILED },
    ],
    [['{', '  1) not this:', ']', '  2) nor this:', '}', '  3) but this:'], { 'but this': FAILED }],
    [['[', '  1) not this:', '}', '  2) nor this:', ']', '  3) but this:'], { 'but this': FAILED }],
    [['x {', '  1) never closed:'], {}],
  ])
})

test('p5.js: removes text between tags and keeps text of an unclosed tag', () => {
  const long = 'b'.repeat(250)
  expectStatuses(parseP5js, [
    [['  1) s<a>x</a>t<b></b>u:'], { stu: FAILED }],
    [['  1) s<a><a></a>t:'], { 's<a>t': FAILED }],
    [['  1) s<a><a><b></a></b></a>t</b>:'], { 'st</b>': FAILED }],
    [['<a>', '<a>', '</a>', '  1) s:'], { s: FAILED }],
    [['  1) s<a>t</b>u:', '  2) v<c>:'], { 's<a>t</b>u': FAILED, 'v<c>': FAILED }],
    [['<a>', '  1) s:'], { s: FAILED }],
    [['<a>', '  1) not this:', '<b>', '</a>', '  2) but this:', '</b>'], { 'but this': FAILED }],
    // Two halves of a tag come together.
    [['  1) s<<a></a>b>t:'], { 's<b>t': FAILED }],
    [['x'.repeat(250), '<<a></a>b>', '  1) not this:', '</b>', '  2) but this:'], { 'but this': FAILED }],
    [['x'.repeat(250), '<b>', '  1) not this:', '<<a></a>/b>', '  2) but this:'], { 'but this': FAILED }],
    [['<<a></a><c></c>b>', '  1) not this:', '</b>', '  2) but this:'], { 'but this': FAILED }],
    [
      [`<${long}<a></a><c></c>${long}>`, '  1) not this:', `</${long}${long}>`, '  2) but this:'],
      { 'but this': FAILED },
    ],
  ])
})

test('p5.js: accepts up to fifty adjacent tags and any number of others', () => {
  const failure = ['', '  1) s:']
  const log = (count: number, make: (at: number) => string): string[] => [
    Array.from({ length: count }, (_, at) => make(at)).join(''),
    ...failure,
  ]
  expectStatuses(parseP5js, [
    [log(50, () => '<<a></a>b>'), { s: FAILED }],
    [log(200, () => '<a></a>'), { s: FAILED }],
    [log(200, () => '<a></a>b>'), { s: FAILED }],
    [log(200, () => '<<a></a> '), { s: FAILED }],
    // Neither is a tag: it has no name, and a slash behind its name.
    [log(200, () => '<<a></a>>'), { s: FAILED }],
    [log(200, () => '<b<a></a>/>'), { s: FAILED }],
    [log(200, () => '</<a></a>/b>'), { s: FAILED }],
    [log(200, (at) => `<<x${at}><x${at}></x${at}>b>`), { s: FAILED }],
  ])
  expectRaised('MemoryError', parseP5js, ...log(51, () => '<<a></a>b>'))
})

test('TAP with blocks: a line of brackets ends as many blocks, and a failure stays', () => {
  expectStatuses(parseJs3, [
    [
      ['ok 1 - s {', '  ok 1 - t {', '    not ok 1 - a', '  }', '  ok 2 - b # TODO later', '}', 'ok 2 - c (3ms)'],
      { s: PASSED, 's :: t': PASSED, 's :: t :: a': FAILED, 's :: b': PASSED, c: PASSED },
    ],
    [['ok 1 - s {', 'ok 1 - t {', '}}', 'ok 2 - a'], { s: PASSED, 's :: t': PASSED, a: PASSED }],
    [['ok 1 - s {', '}}}', 'ok 2 - a {', 'ok 3 - b'], { s: PASSED, a: PASSED, 'a :: b': PASSED }],
    [['ok 1 - s {', '} else', 'ok 2 - a}', 'ok 3 - b'], { s: PASSED, 's :: a}': PASSED, 's :: b': PASSED }],
    [['not ok 1 - a', 'ok 2 - a', 'ok 3 - b', 'not ok 4 - b'], { a: FAILED, b: FAILED }],
  ])
})

test('marks: a failed result stays failed, and words in brackets skip', () => {
  expectStatuses(parseJs4, [
    [['✖ a', '✓ a', '✓ b', '✘ b', '○ c', '✔ c', '✔ d', '⚪ d'], { a: FAILED, b: FAILED, c: SKIPPED, d: SKIPPED }],
    [
      ['✓ [p]: a', '✓ [p] b', '✓ : c', '✓ []: : d', 'e [Skip] (skipped)'],
      {
        a: PASSED,
        '[p] b': PASSED,
        c: PASSED,
        d: PASSED,
        'e [Skip]': SKIPPED,
      },
    ],
  ])
})

test('npx: a last bracket is not part of a failure', () => {
  expectStatuses(parseNpx, [
    [
      ['  ✔ a (12ms)', '✔ b (12)', '  1) c (mod)', '2) (mod)', '3) d(mod)', '4)   (x)  (y)'],
      {
        a: PASSED,
        b: PASSED,
        c: FAILED,
        '(mod)': FAILED,
        'd(mod)': FAILED,
        '(x)': FAILED,
      },
    ],
  ])
})
