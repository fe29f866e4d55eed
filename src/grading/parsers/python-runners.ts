import { DIGIT, pythonSplitLines, pythonStrip, SPACE, pythonItem, pythonSplit } from './python-text.ts'
import { withoutColours } from './pytest.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const STATUS = '(PASSED|FAILED|SKIPPED|ERROR)'

/** pytest-xdist: `[gw0] [ 50%] PASSED id`. */
const OF_WORKER = new RegExp(`^\\[gw${DIGIT}+\\]${SPACE}+\\[[^\\]]*\\]${SPACE}+${STATUS}${SPACE}+([^]*)`, 'u')
/** ` PASSED [` in the middle of a line, matched at the first whitespace of a run. */
const IN_THE_MIDDLE = new RegExp(`(?<!${SPACE})${SPACE}+${STATUS}${SPACE}+\\[`, 'gu')
const TIME_AT_THE_END = new RegExp(`^${SPACE}+in${SPACE}+${DIGIT}+(?:\\.${DIGIT}+)?s$`, 'u')
/** `PASSED id` */
const AT_THE_START = new RegExp(`^${STATUS}${SPACE}+([^]*)`, 'u')

/** SWE-rebench-V2's parser of pytest's progress lines with and without workers; ids keep their spaces. */
export const parsePytestNebo: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(withoutColours(raw))
    const ofWorker = OF_WORKER.exec(line)
    if (ofWorker !== null) {
      statuses.set(withoutTiming(ofWorker[2] ?? ''), ofWorker[1] ?? '')
      continue
    }
    const middle = readMiddle(line)
    if (middle !== null) {
      statuses.set(pythonStrip(middle.id), middle.status)
      continue
    }
    const start = AT_THE_START.exec(line)
    if (start !== null) statuses.set(withoutTiming(start[2] ?? ''), start[1] ?? '')
  }
  return statuses
}

/**
 * `id PASSED [ 50%] in 0.12s`: upstream's pattern takes the first status after which one pair of brackets and a time end the line.
 * The line is read from its end, because the pattern takes cubic time on long lines.
 */
function readMiddle(line: string): { id: string; status: string } | null {
  const close = line.lastIndexOf(']')
  if (!TIME_AT_THE_END.test(line.slice(close + 1))) return null
  const before = line.lastIndexOf(']', close - 1)
  for (const match of line.matchAll(IN_THE_MIDDLE)) {
    const open = match.index + match[0].length - 1
    if (open > before) return { id: line.slice(0, match.index), status: match[1] ?? '' }
  }
  return null
}

function withoutTiming(text: string): string {
  return pythonStrip(text.split(' in ')[0] ?? '')
}

/** Summary lines, and lines of the verbose report with the status in the middle. A line of one word raises. */
export const parseSeaborn: LogParser = (log) => readLines(log, (words) => words)

/** swebench 5 ignores lines of one word. */
export const parseSeabornOf5: LogParser = (log) => readLines(log, (words) => (words.length < 2 ? null : words))

function readLines(log: string, choose: (words: string[]) => string[] | null): StatusMap {
  const statuses: StatusMap = new Map()
  for (const line of log.split('\n')) {
    const isFailed = line.startsWith('FAILED')
    const hasPassed = line.includes(' PASSED ')
    if (!isFailed && !hasPassed && !line.startsWith('PASSED')) continue
    const words = choose(pythonSplit(line))
    if (words === null) continue
    if (isFailed) statuses.set(pythonItem(words, 1), 'FAILED')
    else if (!hasPassed) statuses.set(pythonItem(words, 1), 'PASSED')
    else if (pythonItem(words, 1) === 'PASSED') statuses.set(pythonItem(words, 0), 'PASSED')
  }
  return statuses
}

/** sympy's own runner: headings of failures, and one line per test. */
export const parseSympy: LogParser = (log) => readSympyLines(log, pythonStrip)

/** SWE-rebench-V2 first removes the file's status at the end of the line. */
export const parseSympyOfV2: LogParser = (log) =>
  readSympyLines(log, (raw) => {
    const line = pythonStrip(raw)
    const isMarked = line.endsWith('[FAIL]') || line.endsWith('[OK]')
    return isMarked ? pythonStrip(line.slice(0, line.lastIndexOf('['))) : line
  })

const ENDINGS = [
  [' E', 'ERROR'],
  [' F', 'FAILED'],
  [' ok', 'PASSED'],
] as const

function readSympyLines(log: string, clean: (line: string) => string): StatusMap {
  const statuses: StatusMap = new Map()
  const lines = log.split('\n')
  for (const line of lines) {
    const heading = failureHeading(line)
    if (heading !== null) statuses.set(heading, 'FAILED')
  }
  for (const line of lines.map(clean)) {
    if (!line.startsWith('test_')) continue
    for (const [ending, status] of ENDINGS) {
      if (line.endsWith(ending)) statuses.set(pythonItem(pythonSplit(line), 0), status)
    }
  }
  return statuses
}

/**
 * `___ path.py:test ___`. Upstream's pattern has stars for the underscores, so any line with a space, `.py:` and another space
 * matches: from after the first space to before the last. A search replaces the pattern, which takes quadratic time on long lines.
 */
function failureHeading(line: string): string | null {
  const first = line.indexOf(' ')
  const last = line.lastIndexOf(' ')
  const ending = line.lastIndexOf('.py:', last - 4)
  return first < 0 || ending <= first ? null : line.slice(first + 1, last)
}
