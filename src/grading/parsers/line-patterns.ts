import { ANY, DIGIT, NOT_SPACE, pythonStrip, SPACE } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

/** Parsers that read one result from each line by one pattern, over lines without blanks at their ends. */
interface LinePattern {
  pattern: RegExp
  /** Which groups hold the test's name and the word for its status. */
  name: number
  word: number
  /** Words that this does not list are no results. */
  statuses: Record<string, string>
}

export const parseGoTest = lineParser({
  pattern: new RegExp(`^--- (PASS|FAIL|SKIP): (${ANY}+) \\(${ANY}+\\)$`, 'u'),
  name: 2,
  word: 1,
  statuses: { PASS: 'PASSED', FAIL: 'FAILED', SKIP: 'SKIPPED' },
})

/** Ignored tests and "- should panic" are not read, as upstream has it. */
export const parseCargo = lineParser({
  pattern: new RegExp(`^test${SPACE}+(${NOT_SPACE}+)${SPACE}+\\.\\.\\.${SPACE}+(ok|FAILED)$`, 'u'),
  name: 1,
  word: 2,
  statuses: { ok: 'PASSED', FAILED: 'FAILED' },
})

/** `--verbose`; a duration in brackets is no part of the name. */
export const parseJest = lineParser({
  pattern: new RegExp(`^([✓✕○])${SPACE}(${ANY}+?)(?:${SPACE}\\(${DIGIT}+${SPACE}*m?s\\))?$`, 'u'),
  name: 2,
  word: 1,
  statuses: { '✓': 'PASSED', '✕': 'FAILED', '○': 'SKIPPED' },
})

/** `--reporter=verbose`; a number at the end of a name is taken for a duration. */
export const parseVitest = lineParser({
  pattern: new RegExp(`^([✓×↓])${SPACE}(${ANY}+?)(?:${SPACE}(?:${DIGIT}+${SPACE}*m?s?|\\[skipped\\]))?$`, 'u'),
  name: 2,
  word: 1,
  statuses: { '✓': 'PASSED', '×': 'FAILED', '↓': 'SKIPPED' },
})

export const parseGradle = lineParser({
  pattern: new RegExp(`^([^>]${ANY}+?)${SPACE}+(PASSED|FAILED)(?:${SPACE}+\\(${DIGIT}+(?:\\.${DIGIT}+)?s\\))?$`, 'u'),
  name: 1,
  word: 2,
  statuses: { PASSED: 'PASSED', FAILED: 'FAILED' },
})

function lineParser({ pattern, name, word, statuses }: LinePattern): LogParser {
  return (log) => {
    const found: StatusMap = new Map()
    for (const line of log.split('\n')) {
      const match = pattern.exec(pythonStrip(line))
      const status = match === null ? undefined : statuses[match[word] ?? '']
      if (match !== null && status !== undefined) found.set(match[name] ?? '', status)
    }
    return found
  }
}
