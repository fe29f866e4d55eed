/**
 * Some official patterns take squared time or worse on lines that no test runner prints, so they are read in another way here. The
 * patterns themselves stay as the specification: on every text that is short enough for them both say the same.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'

import { isInconsistentLog } from './log-signs.ts'
import { parseJunitText } from './parsers/junit-text.ts'
import { parseGoTest, parseGradle } from './parsers/line-patterns.ts'
import { parseJavaMaven } from './parsers/maven.ts'
import { parsePytestNebo } from './parsers/python-runners.ts'
import {
  ANY,
  DIGIT,
  LINE_END,
  LINE_START,
  NOT_SPACE,
  pythonStrip,
  SPACE,
  WORD,
  WORD_EDGE,
} from './parsers/python-text.ts'
import { patchSigns } from './patch-signs.ts'
import { describesItsRun } from './grade-log.ts'
import { withoutTiming } from './test-names.ts'
import { readPatchedFiles } from './test-patch.ts'

const RUNS = 4000

/** Texts of the given parts in any order and number: nearly right ones among them. */
function textsOf(...parts: string[]): fc.Arbitrary<string> {
  return fc.array(fc.constantFrom(...parts), { maxLength: 14 }).map((chosen) => chosen.join(''))
}

function same<T>(texts: fc.Arbitrary<string>, read: (text: string) => T, official: (text: string) => T): void {
  let found = 0
  fc.assert(
    fc.property(texts, (text) => {
      const expected = official(text)
      const isEmpty = expected === null || expected === false || (Array.isArray(expected) && expected.length === 0)
      found += isEmpty ? 0 : 1
      assert.deepEqual(read(text), expected)
    }),
    { numRuns: RUNS, seed: 20_261_122 },
  )
  assert.ok(found > 20, `only ${found} texts meant anything`)
}

test('go: reads names up to the last bracket', () => {
  const pattern = new RegExp(`^--- (PASS|FAIL|SKIP): (${ANY}+) \\(${ANY}+\\)$`, 'u')
  const words: Record<string, string> = { PASS: 'PASSED', FAIL: 'FAILED', SKIP: 'SKIPPED' }
  same(
    textsOf('--- PASS: ', '--- FAIL: ', 'T', ' ', ' (', '(', ')', '0s', '😀', '\t').map((text) => `--- PASS: ${text}`),
    (text) => [...parseGoTest(text)],
    (text) => {
      const match = pattern.exec(pythonStrip(text))
      return match === null ? [] : [[match[2] ?? '', words[match[1] ?? ''] ?? '']]
    },
  )
})

test('gradle: reads the shortest name of two characters', () => {
  const pattern = new RegExp(
    `^([^>]${ANY}+?)${SPACE}+(PASSED|FAILED)(?:${SPACE}+\\(${DIGIT}+(?:\\.${DIGIT}+)?s\\))?$`,
    'u',
  )
  same(
    textsOf('a', '>', '😀', ' ', '  ', 'PASSED', ' FAILED', '(1s)', ' (1.5s)', '(.5s)', '٣', '\u0085'),
    (text) => [...parseGradle(text)],
    (text) => {
      const match = pattern.exec(pythonStrip(text))
      return match === null ? [] : [[match[1] ?? '', match[2] ?? '']]
    },
  )
})

test('pytest progress lines: reads the first status followed by brackets and a time', () => {
  const status = '(PASSED|FAILED|SKIPPED|ERROR)'
  const [worker, middle, start] = [
    new RegExp(`^\\[gw${DIGIT}+\\]${SPACE}+\\[[^\\]]*\\]${SPACE}+${status}${SPACE}+(${ANY}*)$`, 'u'),
    new RegExp(
      `^(${NOT_SPACE}${ANY}*?)${SPACE}+${status}${SPACE}+\\[[^\\]]*\\]${SPACE}+in${SPACE}+${DIGIT}+(?:\\.${DIGIT}+)?s$`,
      'u',
    ),
    new RegExp(`^${status}${SPACE}+(${ANY}*)$`, 'u'),
  ]
  const untimed = (text: string): string => pythonStrip(text.split(' in ')[0] ?? '')
  same(
    textsOf(
      'a',
      ' ',
      '  ',
      'PASSED',
      ' PASSED [',
      ' FAILED [',
      '[',
      ']',
      '] in 1s',
      ' in 0.5s',
      ' in ',
      '[gw0] [',
      '\u00A0',
    ),
    (text) => [...parsePytestNebo(text)],
    (text) => {
      const line = pythonStrip(text)
      const ofWorker = worker.exec(line)
      if (ofWorker !== null) return [[untimed(ofWorker[2] ?? ''), ofWorker[1] ?? '']]
      const inside = middle.exec(line)
      if (inside !== null) return [[pythonStrip(inside[1] ?? ''), inside[2] ?? '']]
      const atStart = start.exec(line)
      return atStart === null ? [] : [[untimed(atStart[2] ?? ''), atStart[1] ?? '']]
    },
  )
})

test('reads times in names', () => {
  const number = `${DIGIT}+(?:\\.${DIGIT}+)?`
  const unit = '(?:[mM][sSſ]|[sSſ])'
  const timings = [
    new RegExp(`${SPACE}*\\[${SPACE}*${number}${SPACE}*${unit}${SPACE}*\\]${SPACE}*$`, 'gu'),
    new RegExp(`${SPACE}+[iIİı][nN]${SPACE}+${number}${SPACE}+(?:[mM][sSſ][eE][cC]|[sSſ][eE][cC])${WORD_EDGE}`, 'gu'),
    new RegExp(`${SPACE}*\\(${SPACE}*${number}${SPACE}*${unit}${SPACE}*\\)${SPACE}*$`, 'gu'),
  ]
  same(
    textsOf(
      'a',
      ' ',
      '[',
      ']',
      '(',
      ')',
      '1',
      '.5',
      'ms',
      'S',
      'ſ',
      ' in ',
      ' IN 2 sec',
      ' 3 msec',
      'sec',
      '\u0085',
      '\n',
    ),
    (text) => [withoutTiming(text)],
    (text) => [pythonStrip(timings.reduce((rest, pattern) => rest.replaceAll(pattern, ''), text))],
  )
})

test('reads JUnit elements inside other text', () => {
  const opening = new RegExp(`<testcase(?!${WORD})([^>]*)>`, 'gu')
  const attribute = new RegExp(`(${WORD}+)="([^"]*)"`, 'gu')
  const parts = [
    '<testcase',
    ' name="a"',
    ' classname="c d"',
    ' name="',
    '"',
    '/>',
    '>',
    '<failure',
    '<error/>',
    '<skipped',
    '</testcase>',
    'x',
    ' ',
    '\n',
  ]
  const padded = fc.tuple(
    textsOf(...parts),
    fc.constantFrom('', '.'.repeat(4080), '😀'.repeat(4085)),
    textsOf(...parts),
  )
  same(
    padded.map(([first, gap, second]) => `<testcase name="n">${first}${gap}${second}`),
    (text) => [...parseJunitText(text)],
    (text) => {
      const statuses = new Map<string, string>()
      for (let from = 0; ; ) {
        opening.lastIndex = from
        const match = opening.exec(text)
        if (match === null) return [...statuses]
        const start = opening.lastIndex
        from = start
        const attributes = new Map([...(match[1] ?? '').matchAll(attribute)].map(([, name, value]) => [name, value]))
        const name = attributes.get('name') ?? ''
        if (name === '') continue
        let content = ''
        if (!pythonStrip(match[1] ?? '').endsWith('/')) {
          const end = text.indexOf('</testcase>', start)
          content = end < 0 ? Array.from(text.slice(start)).slice(0, 4096).join('') : text.slice(start, end)
          if (end >= 0) from = end + '</testcase>'.length
        }
        const element = ['<failure', '<error', '<skipped'].findIndex((one) => content.includes(one))
        const className = attributes.get('classname') ?? ''
        const status = ['FAILED', 'ERROR', 'SKIPPED'][element] ?? 'PASSED'
        statuses.set(className === '' ? name : pythonStrip(`${className} ${name}`), status)
      }
    },
  )
})

test("maven's failures: reads up to the last dot before a word", () => {
  const name = '[A-Za-z0-9_$.]'
  const pattern = new RegExp(`^\\[ERROR\\]${SPACE}+(${name}+)\\.(${name}+?)(?::${DIGIT}+)?${WORD_EDGE}`, 'u')
  same(
    textsOf('.', '$', 'a', '_', 'B1', ':1', ':', '٣', ' ', 'é', '-').map((text) => `[ERROR] ${text}`),
    (text) => [...parseJavaMaven(text).keys()],
    (text) => {
      const match = pattern.exec(pythonStrip(text))
      if (match === null) return []
      return [...new Set([`${match[1] ?? ''}.${match[2] ?? ''}`, match[1] ?? ''])]
    },
  )
})

test('finds signs that tests ran', () => {
  const ran = new RegExp(
    [
      `Executed [1-9]${DIGIT}* of ${DIGIT}`,
      `TOTAL: [1-9]${DIGIT}* (?:SUCCESS|FAILED)`,
      `[1-9]${DIGIT}* passing`,
      `Tests:${SPACE}+[1-9]`,
      `Test Suites:${SPACE}+(?:${DIGIT}+ ${WORD}+, )*[1-9]${DIGIT}* total`,
      `${LINE_START}# tests [1-9]`,
      `[1-9]${DIGIT}* specs?, ${DIGIT}+ failures?`,
      `': ok${LINE_END}`,
    ].join('|'),
    'u',
  )
  same(
    textsOf('0', '1', '٣', ' passing', ' spec, ', ' specs, ', '0 failure', 'Executed ', ' of ', 'x', ' ', '\n'),
    (text) => describesItsRun(text, new Map()),
    (text) => ran.test(text),
  )
})

test('finds the end of a session', () => {
  const summary =
    /^=+ (.*\b(?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|no tests ran)\b.*) in [\d.]+s.* =+$/gm
  const inside = textsOf(
    '=',
    '==',
    ' ',
    '1',
    '2 passed',
    ' passed',
    ' in ',
    ' in 1s',
    '.5s',
    's',
    'failed',
    '\n',
    '\u2028',
    '\r',
  )
  const log = (text: string): string =>
    `>>>>> Start Test Output\n= test session starts =\nPASSED a\nPASSED b\n= ${text} =\n>>>>> End Test Output`
  same(
    inside,
    (text) => isInconsistentLog(Buffer.from(log(text))),
    (text) => {
      const slice = log(text).replaceAll('\r', '\n').split('Output')[1] ?? ''
      const ends = [...slice.matchAll(summary)].map(([, counts]) => Number(/(\d+) passed/.exec(counts ?? '')?.[1] ?? 0))
      return ends.length !== 1 || ends.reduce((sum, passed) => sum + passed, 0) < 2
    },
  )
})

test('reads names of a diff, plain and quoted', () => {
  // Of each name: with prefix or without, in quotes or without.
  const patterns = [
    [String.raw`a\/`, String.raw`b\/`],
    ['', ''],
  ].flatMap(([a = '', b = '']) =>
    [`("${a}[^\\n]*")`, `(${a === '' ? '[^"\\n]' : a}[^\\n]*)`].flatMap((source) =>
      [`("${b}[^\\n]+")`, `(${b}[^\\n]*[^"\\n])`].map((target) => new RegExp(`^diff --git ${source} ${target}$`)),
    ),
  )
  same(
    fc
      .tuple(fc.constantFrom('a/', '"a/', 'x'), textsOf('x', ' b/', 'b/', '"', '" "b/', ' ', 'a/'))
      .map(([start, rest]) => `diff --git ${start}${rest}`),
    (text) => {
      try {
        return readPatchedFiles(text).map(({ source, target }) => [source, target])
      } catch {
        return []
      }
    },
    (text) => {
      const match = patterns.map((pattern) => pattern.exec(text)).find((found) => found !== null)
      return match === undefined ? [] : [[match[1] ?? '', match[2] ?? '']]
    },
  )
})

/** Our own signs, as patterns. */
const SIGNS = [
  {
    sign: 'test-awareness',
    pattern: /PYTEST_(?:CURRENT_TEST|VERSION)|\bsys\.modules\b[^\n]*\b_?pytest\b|\b_?pytest\b[^\n]*\bsys\.modules\b/,
    parts: ['sys.modules', 'pytest', '_pytest', ' ', 'x', '"'],
  },
  {
    sign: 'machinery',
    pattern: /\/\.lh\b|\/eval\.sh\b|\/proc\/[^\s"']*\/(?:fd|mem|environ|root)\b/,
    parts: ['/proc/', '/fd', '/mem', '/root', 's', ' ', '"', '/', '1'],
  },
  {
    sign: 'result-words',
    pattern: /\b(?:PASSED|XFAIL|XPASS)\b|={3,}[^\n]*\bpassed\b/,
    parts: ['=', '===', ' ', 'passed', '1', 'x', 'PASSED'],
  },
] as const

for (const { sign, pattern, parts } of SIGNS) {
  test(`${sign}: found within one line`, () =>
    same(
      textsOf(...parts),
      (text) => patchSigns({ patch: patchOf([text]), goldPatch: '' }).includes(sign),
      (text) => pattern.test(text),
    ))
}

test('always-equal: found over several lines', () =>
  same(
    textsOf('def __eq__(', 'self):', '\n', ' ', '\t', 'return True', 'return True', 'return Truest', 'x', '\f'),
    (text) => patchSigns({ patch: patchOf(text.split('\n')), goldPatch: '' }).includes('always-equal'),
    (text) => /def __eq__\([^\n]*\n?\s*return True\b/.test(text),
  ))

test('forged-results: finds status words after a lone carriage return', () =>
  same(
    textsOf('\r', '\n', '\r\n', 'PASSED', 'FAILED', 'x', ' '),
    (text) => patchSigns({ patch: Buffer.from(text), goldPatch: '' }).includes('forged-results'),
    (text) => /\r(?!\n)[^\n]*(?:PASSED|FAILED|SKIPPED|ERROR|XFAIL)/.test(text),
  ))

function patchOf(added: readonly string[]): Uint8Array {
  const lines = added.map((line) => `+${line}`)
  return Buffer.from(
    ['diff --git a/m.py b/m.py', '--- a/m.py', '+++ b/m.py', `@@ -0,0 +1,${added.length} @@`, ...lines, ''].join('\n'),
  )
}
