import { DIGIT, isZero, LINE_END, LINE_START, SPACE, WORD } from './parsers/python-text.ts'
import type { StatusMap } from './parsers/status-map.ts'

/** `[1-9]` and further digits wherever they begin: looked for once in each run of digits, or a long run would cost squared time. */
const SOME = `(?<!${DIGIT})(?=${DIGIT}*?[1-9])${DIGIT}+`

/** Words of test runners that say that at least one test ran. None of them is pytest's. */
const RAN = new RegExp(
  [
    `Executed [1-9]${DIGIT}* of ${DIGIT}`,
    `TOTAL: [1-9]${DIGIT}* (?:SUCCESS|FAILED)`,
    `${SOME} passing`,
    `Tests:${SPACE}+[1-9]`,
    `Test Suites:${SPACE}+(?:${DIGIT}+ ${WORD}+, )*[1-9]${DIGIT}* total`,
    `${LINE_START}# tests [1-9]`,
    `${SOME} specs?, ${DIGIT}+ failures?`,
    `': ok${LINE_END}`,
  ].join('|'),
  'u',
)

const EXIT_CODE = new RegExp(`>>>>> Test Exit Code:${SPACE}*(-?${DIGIT}+)`, 'u')

/**
 * swebench 5 believes a log without results only where a runner says that tests ran, and results without a failure only where
 * the test command did not say that it failed. The first exit code in the log counts, even one that the tests printed.
 */
export function describesItsRun(text: string, statuses: StatusMap): boolean {
  if (statuses.size === 0) {
    if (!RAN.test(text)) return false
    // Read although it decides nothing here: a number that Python refuses is an error of the instance.
    readFailedExit(text)
    return true
  }
  const hasFailure = [...statuses.values()].some((status) => status === 'FAILED' || status === 'ERROR')
  return !readFailedExit(text) || hasFailure
}

function readFailedExit(text: string): boolean {
  const code = EXIT_CODE.exec(text)?.[1]
  return code !== undefined && !isZero(code)
}
