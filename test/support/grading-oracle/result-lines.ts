/** Lines of test runners, and lines that are nearly such. */
import type { Dice } from './dice.ts'
import { fillTemplate, templatesOf, wholeReport } from './line-templates.ts'

const WORDS = [
  'PASSED',
  'FAILED',
  'SKIPPED',
  'ERROR',
  'XFAIL',
  'XPASS',
  'PASSED:',
  'FAILED_X',
  'ERROR:',
  'passed',
  'OK',
] as const
const NAMES = [
  'test_a',
  'test_b',
  'test_é',
  'test_ﬁ',
  'test_日本',
  '__proto__',
  'constructor',
  '12',
  '007',
  'toString',
  'test',
  'x',
  '-',
  '[',
  '"',
  '#15789',
] as const
const PARAMETERS = [
  'a',
  'a b',
  'a - b',
  '/x/y',
  '//x/y',
  '/x/*',
  '/',
  '',
  'x[y',
  'x]y',
  '1-2',
  'MouseButton.LEFT',
  'MouseButton.RIGHT-MouseButton.LEFT',
  '100%',
  'ｘ',
  '0.5',
  '12m',
  '٣m',
  'in 3 sec',
  'log(photon /s)',
] as const
const FILES = ['a.py', 'tests/b.py', 'tests/sub dir/c.py', 'é.py', 'src/x.test.ts', 'pkg/mod'] as const
const REASONS = ['', ' - why', ' - E: x - y', ' - assert 1 == 2', ' -', ' - ', ' (reason)', ': r'] as const
const NUMBERS = ['1', '0', '12', '3.4', '٣', '１２', '0.05', '07', '²', '߃'] as const

/** The runner that a parser reads; parsers of other names get lines of pytest. */
export type LineKind =
  | 'pytest'
  | 'seaborn'
  | 'django'
  | 'sympy'
  | 'nebo'
  | 'gotest'
  | 'cargo'
  | 'jest'
  | 'vitest'
  | 'java'
  | 'gradle'

export const LINE_KINDS: readonly LineKind[] = [
  'pytest',
  'seaborn',
  'django',
  'sympy',
  'nebo',
  'gotest',
  'cargo',
  'jest',
  'vitest',
  'java',
  'gradle',
]

export function lineKind(parser: string): LineKind {
  const found = LINE_KINDS.find((kind) => parser.includes(kind))
  if (found !== undefined) return found
  return parser.includes('mvn') || parser.includes('maven') ? 'java' : 'pytest'
}

export function testId(dice: Dice): string {
  const name = `${dice.pick(NAMES)}${dice.chance(0.35) ? `[${dice.pick(PARAMETERS)}]` : ''}`
  const timed = dice.chance(0.05) ? `${name} ${timing(dice)}` : name
  return dice.chance(0.6) ? `${dice.pick(FILES)}::${timed}` : timed
}

function timing(dice: Dice): string {
  const number = dice.pick(NUMBERS)
  const unit = dice.pick(['ms', 's', 'MS', 'ſ', 'mſ', ' ms', 'sec', 'msec', 'h'])
  return dice.pick([
    `[${number}${unit}]`,
    `(${number}${unit})`,
    `in ${number} ${unit}`,
    `İN ${number} ${unit}`,
    `ın ${number} mSEC`,
    `in ${number} secx`,
  ])
}

const MAKERS: Record<LineKind, (dice: Dice, id: string) => string> = {
  pytest: (dice, id) =>
    dice.pick([
      () => `${dice.pick(WORDS)} ${id}${dice.pick(REASONS)}`,
      () => `${dice.pick(WORDS)} ${id}`,
      () => `${id} ${dice.pick(WORDS)}`,
      () => `${id} ${dice.pick(WORDS)} [ 50%]`,
      () => `SKIPPED [${dice.pick(NUMBERS)}] ${id}: r`,
      () => 'PASSED [100%]',
      () => `${dice.pick(WORDS)}${id}`,
      () => dice.pick(WORDS),
      () => `4 passed, 1 ${dice.pick(WORDS)}`,
    ])(),
  seaborn: (dice, id) =>
    dice.pick([
      () => `${id} PASSED [ 50%]`,
      () => `FAILED ${id}${dice.pick(REASONS)}`,
      () => `PASSED ${id}`,
      () => `x ${id} PASSED y`,
      () => (dice.chance(0.1) ? dice.pick([' PASSED ', 'FAILED', 'PASSED', 'FAILEDx']) : `${id} FAILED`),
    ])(),
  django: (dice, id) =>
    dice.pick([
      () =>
        `${id} (tests.x) ... ${dice.pick(['ok', 'OK', ' OK', 'FAIL', 'ERROR', "skipped 'why'", 'expected failure', 'okay'])}`,
      () => `${dice.pick(['FAIL', 'ERROR'])}: ${dice.chance(0.05) ? '' : `${id} (x)`}`,
      () => `${id} ... some output\n${dice.pick(['ok', 'okay', ' ok', 'no', 'FAIL'])}`,
      () => '--version is equivalent to version ... ok',
      () =>
        `Applying sites.0002_alter_domain_unique...test_no_migrations ${dice.pick([`${id} ... ok`, '(x) ... ok', '... ok', '... FAIL'])}`,
      () =>
        `${id} ... Testing against Django installed in '/x'${dice.pick([' with 3', '\nline\nline', ''])} ${dice.pick(['silenced).\nok', '(0 silenced).\nok', 'silenced)\nok', 'silenced).\nokay'])}`,
      () => `${id} ... Internal Server Error: /${dice.pick(['a/b', '', 'x'])}/\nok`,
      () => `${id}${dice.pick([' ', '\n', '\t'])}... System check identified no issues (0 silenced)\nok`,
      () => `System check identified no issues (0 silenced).\n${dice.pick(['ok', ' ... ok', '... ok'])}`,
    ])(),
  sympy: (dice, id) =>
    dice.pick([
      () =>
        `${dice.pick(['____', '_', ''])} ${id}.py:${dice.pick(['test_x', 'x y', ''])} ${dice.pick(['____', '_', ''])}`,
      () =>
        `test_${id} ${dice.pick(['ok', 'F', 'E', 'f', 's', 'K', 'ok [OK]', 'F [FAIL]', 'ok[OK]', '[OK]', 'E [FAIL] [OK]'])}`,
      () => `test_ ${dice.pick(['ok', 'F'])}`,
      () => `  test_${id}  ${dice.pick(['ok', 'E'])}  `,
      () => `a.py:3: b.py:4 warning ${id}`,
    ])(),
  nebo: (dice, id) =>
    dice.pick([
      () => `[gw${dice.pick(NUMBERS)}] [ 50%] ${dice.pick(WORDS)} ${id}${dice.pick(['', ' in 0.1s', ' in x'])}`,
      () => `${id} ${dice.pick(WORDS)} [ 50%] in ${dice.pick(NUMBERS)}s`,
      () => `${dice.pick(WORDS)} ${id}${dice.pick(['', ' in 0.1s', '  in  x'])}`,
      () => `${id} ${dice.pick(WORDS)} [ 50%]`,
      () => `[gw0] ${dice.pick(WORDS)} ${id}`,
    ])(),
  gotest: (dice, id) =>
    `${dice.pick(['', '    '])}--- ${dice.pick(['PASS', 'FAIL', 'SKIP', 'ok'])}: ${id} (${dice.pick(['0.00s', '', '1.2s) (x'])})`,
  cargo: (dice, id) =>
    `test ${dice.pick([id, id.replaceAll(' ', '')])} ... ${dice.pick(['ok', 'FAILED', 'ignored', 'ignored, why', 'ok ', 'okay', 'bench'])}${dice.chance(0.1) ? ' - should panic' : ''}`,
  jest: (dice, id) =>
    `${dice.pick(['', '  '])}${dice.pick(['✓', '✕', '○', '√'])} ${id}${dice.pick(['', ' (12 ms)', ' (3s)', ' (٣ ms)', '(1 ms)', ' (1 m)'])}`,
  vitest: (dice, id) =>
    `${dice.pick(['', '  '])}${dice.pick(['✓', '×', '↓', '❯'])} ${id}${dice.pick(['', ' 12ms', ' 3', ' [skipped]', ' 12 ms', ' 1s', ' ٣ms'])}`,
  java: (dice, id) =>
    dice.pick([
      () => `${dice.pick(['[INFO] ', ''])}Running com.x.${dice.pick(['FooTest', 'BarTest$In', 'é'])}`,
      () =>
        `${dice.pick(['[INFO] ', '[ERROR] ', ''])}Tests run: ${count(dice)}, Failures: ${count(dice)}, Errors: ${count(dice)}, Skipped: ${count(dice)}${dice.pick(['', ', Time elapsed: 0.1 s', ', Time elapsed: 0.1 s - in com.x.FooTest', ' -- in com.x.BarTest.:;', ' in '])}`,
      () =>
        `[ERROR] com.x.FooTest.${dice.pick(['bar', 'bar:12', 'bar:12é', '$x', 'a.b.', 'x:٣', '.', '_'])} ${dice.pick(['expected', 'NullPointerException', 'Exception AssertionError', ''])}`,
      () => `+ mvn test -Dtest=${dice.pick([id, 'FooTest#bar', '', 'A -Dtest=B', 'A -Dtest='])} -q`,
      () => `[INFO] BUILD ${dice.pick(['SUCCESS', 'FAILURE', 'SUCCESS '])}`,
      () =>
        `<testcase ${dice.pick(['', 'classname="C" '])}name="${dice.pick([id, '', ' x '])}"${dice.pick(['/>', '></testcase>', '><failure/></testcase>', '>\n<error>x</error>\n</testcase>', '><skipped/></testcase>', '>', ` time="1">${'é😀'.repeat(dice.below(1400))}<failure/>`])}`,
      () => `<testcase${dice.pick(['s', 'é', '\n', '"'])} data-name="${id}" name="x">`,
    ])(),
  gradle: (dice, id) =>
    `${dice.pick(['', '> ', '  '])}${dice.pick(['ClassTest', 'é'])} > ${id} ${dice.pick(['PASSED', 'FAILED', 'SKIPPED', 'PASSED (1.2s)', 'FAILED (3s)', 'PASSED (x)', 'PASSED FAILED', '  PASSED'])}`,
}

function count(dice: Dice): string {
  return dice.chance(0.01)
    ? '1'.repeat(4299 + dice.below(4))
    : dice.pick(NUMBERS.filter((number) => !/[.²]/.test(number)))
}

export interface ParserLine {
  parser: string
  id: string
  /** Literals that the harness's parser searches for; words that no template contains are put into lines too. */
  words: readonly string[]
  /** Lines made from the parser's patterns. */
  lines: readonly string[]
}

/** A line that a parser reads. */
export function parserLine(dice: Dice, { parser, id, words, lines }: ParserLine): string {
  if (lines.length > 0 && dice.chance(0.2)) return dice.pick(lines)
  const templates = templatesOf(parser)
  const line = templates === null ? resultLine(dice, lineKind(parser), id) : fill(dice, dice.pick(templates), id, words)
  return words.length > 0 && dice.chance(0.06) ? withWord(dice, line, dice.pick(words)) : line
}

/** Replaces a word of the line, or adds one beside it. */
function withWord(dice: Dice, line: string, word: string): string {
  const [from, to] = dice.pick(
    [...line.matchAll(/\S+/g)].map(({ index, 0: { length } }) => [index, index + length]),
  ) ?? [0, 0]
  return dice.pick([
    () => line.slice(0, from) + word + line.slice(to),
    () => `${line.slice(0, from)}${word} ${line.slice(from)}`,
    () => `${line.slice(0, to)} ${word}${line.slice(to)}`,
    () => word + line,
    () => line + word,
  ])()
}

/** A log with one report and nothing else. */
export function reportLog(dice: Dice): string {
  return wholeReport(dice, (template) => fill(dice, template, dice.pick(NAMES)))
}

function fill(dice: Dice, template: string, id: string, words: readonly string[] = []): string {
  return fillTemplate(template, {
    dice,
    words,
    id: dice.chance(0.5) ? id : dice.pick(NAMES),
    number: () => (dice.chance(0.7) ? String(dice.below(12)) : count(dice)),
  })
}

export function resultLine(dice: Dice, kind: LineKind, id: string): string {
  return MAKERS[kind](dice, id)
}
