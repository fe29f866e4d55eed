/** Logs like those of an evaluation script, with damage that occurs in logs and some that does not. */
import { gradeLog } from '../../../src/grading/grade-log.ts'
import { LOG_PROFILES, type LogProfileName } from '../../../src/grading/log-profiles.ts'
import type { EvalType, ListedTests } from '../../../src/grading/resolution.ts'
import { createDice, type Dice } from './dice.ts'
import type { ParserTexts } from './oracle.ts'
import { damageBytes, damageText } from './damage.ts'
import { LINE_KINDS, parserLine, reportLog, resultLine, testId } from './result-lines.ts'

export interface LogCase {
  id: number
  parser: string
  log: Uint8Array
  tests: ListedTests | null
  evalType: EvalType
}

const START = '>>>>> Start Test Output'
const END = '>>>>> End Test Output'

export interface LogCaseInput {
  profile: LogProfileName
  texts: ParserTexts
  seed: number
  index: number
}

/** Case `index` of a profile; the same on every machine. */
export function logCase({ profile, texts, seed, index }: LogCaseInput): LogCase {
  const dice = createDice((seed + Math.imul(index + 1, 0x9e3779b1)) >>> 0)
  const parser = dice.chance(0.01)
    ? dice.pick(['parse_log_nothing', '', 'parse_log_PYTEST', 'pytest'])
    : dice.pick([...LOG_PROFILES[profile].parsers.keys()])
  const ids = dice.times(1 + dice.below(8), () => testId(dice))
  const text = damageText(dice, wholeLog(dice, { parser, ids, ...(texts.get(parser) ?? NO_TEXTS) }))
  const log = damageBytes(dice, new TextEncoder().encode(text))
  const evalType = dice.chance(0.1) && profile !== 'rebench-v2' ? 'fail_only' : 'pass_and_fail'
  const tests = dice.chance(0.25) ? null : listedTests({ dice, profile, parser, log, ids })
  return { id: index, parser, log, tests, evalType }
}

/** Parsers of JUnit reports, which also find a report in a log; the first accepts nothing else. */
const REPORT_PARSERS = ['parse_test_report', 'parse_combined_test_reports', 'parse_log_gradlew_v1', 'parse_log_r_junit']

interface LogOf {
  parser: string
  ids: string[]
  words: readonly string[]
  lines: readonly string[]
}

/** For a parser that the harness does not know. */
const NO_TEXTS = { words: [], lines: [] } as const

function wholeLog(dice: Dice, of: LogOf): string {
  const { parser, ids } = of
  if (REPORT_PARSERS.includes(parser) && dice.chance(parser === REPORT_PARSERS[0] ? 0.9 : 0.5)) return reportLog(dice)
  const body = resultLines(dice, of, 12)
  const before = [
    '+ git status',
    'On branch main',
    '+ git -c core.fileMode=false diff abc',
    ...diff(dice, ids),
    '+ git apply -v -',
  ]
  const after = [
    ...(dice.chance(0.3) ? ['+ SWEBENCH_TEST_EXIT_CODE=1', exitCode(dice)] : []),
    '+ git checkout abc',
    ...(dice.chance(0.2) ? resultLines(dice, of, 3) : []),
  ]
  const isMarked = !dice.chance(0.05)
  return [
    ...before,
    ...(isMarked ? [`+ : '${START}'`] : []),
    ...(dice.chance(0.3) ? ['============ test session starts ============', 'collected 3 items', ''] : []),
    ...body,
    ...(dice.chance(0.2) ? [evidence(dice)] : []),
    ...(isMarked && !dice.chance(0.03) ? [`+ : '${END}'`] : []),
    ...after,
    '',
  ].join('\n')
}

function resultLines(dice: Dice, { parser, ids, words, lines }: LogOf, most: number): string[] {
  return dice.times(dice.below(4) + dice.below(most), () => {
    const isForeign = !dice.chance(0.9)
    const id = dice.chance(0.85) ? dice.pick(ids) : testId(dice)
    return isForeign ? resultLine(dice, dice.pick(LINE_KINDS), id) : parserLine(dice, { parser, id, words, lines })
  })
}

/** The log contains the model's patch, which can therefore contain markers and results. */
function diff(dice: Dice, ids: string[]): string[] {
  if (!dice.chance(0.15)) return ['diff --git a/x b/x', '+x = 1']
  return [
    `+${START}\rPASSED ${dice.pick(ids)}\r${END}`,
    `+# ${START}`,
    `+# ${END}`,
    `+${exitCode(dice)}`,
    '+>>>>> Tests Errored',
  ].filter(() => dice.chance(0.4))
}

function exitCode(dice: Dice): string {
  const code = dice.chance(0.01)
    ? '7'.repeat(4301)
    : dice.pick(['0', '1', '-1', '00', '٠', '１', '2', '', ' 3', '\n4', '137'])
  return `>>>>> Test Exit Code:${dice.pick(['', ' ', '  '])}${code}`
}

function evidence(dice: Dice): string {
  return dice.pick([
    'Executed 3 of 4 SUCCESS',
    'Executed 0 of 0',
    'TOTAL: 3 SUCCESS',
    '  3 passing (2s)',
    '0 passing',
    '10 passing',
    'Tests: \n 3 total',
    'Tests:       0 total',
    'Test Suites: 1 failed, ２ x, 3 total',
    'Test Suites: 0 total',
    '# tests 4',
    ' # tests 4',
    '5 specs, 0 failures',
    '1 spec, 0 failure',
    "case': ok",
    "case': okay",
    'Executed 1٣ of ٣',
    'Test Suites: 1 é²_x, 4 total',
  ])
}

/** Half of the lists are made from the log, because random lists would hardly ever be fulfilled. */
function listedTests({
  dice,
  profile,
  parser,
  log,
  ids,
}: {
  dice: Dice
  profile: LogProfileName
  parser: string
  log: Uint8Array
  ids: string[]
}): ListedTests {
  const guesses = dice.times(dice.below(4), () => changedId(dice, dice.pick(ids)))
  if (dice.chance(0.1)) return { failToPass: [], passToPass: [] }
  const graded = gradeLog({ profile: LOG_PROFILES[profile], parser, log, tests: { failToPass: [], passToPass: [] } })
  const passed =
    graded.kind === 'graded' ? [...graded.statuses].filter(([, status]) => /PASS|SKIP|XFAIL/.test(status)) : []
  if (passed.length === 0 || dice.chance(0.3)) return split(dice, guesses)
  const names = passed.map(([name]) => (dice.chance(0.05) ? changedId(dice, name) : name))
  return split(dice, dice.chance(0.3) ? [...names, ...guesses] : names)
}

function split(dice: Dice, names: string[]): ListedTests {
  const isFailToPass = names.map(() => dice.chance(0.4))
  return {
    failToPass: names.filter((_, index) => isFailToPass[index] === true),
    passToPass: names.filter((_, index) => isFailToPass[index] !== true),
  }
}

function changedId(dice: Dice, id: string): string {
  return dice.pick([
    () => id,
    () => id.split(' ')[0] ?? '',
    () => id.slice(0, 1 + dice.below(id.length)).toWellFormed(),
    () => `${id.split('[')[0] ?? ''}[`,
    () => `${id} (12 ms)`,
    () => `${id} [1.5 s]`,
    () => ` ${id}`,
    () => `${id}x`,
  ])()
}
