import { parseJunitText } from './junit-text.ts'
import { ANY, DIGIT, isZero, NOT_SPACE, pythonSplitLines, pythonStrip, SPACE, WORD, WORD_EDGE } from './python-text.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'

const NO_NAME = '---NO TEST NAME FOUND YET---'
const TEST_OPTION = new RegExp(`^${ANY}*-Dtest=(${NOT_SPACE}+)`, 'u')
const BUILD_RESULT = new RegExp(`^${ANY}*BUILD (SUCCESS|FAILURE)$`, 'u')

/** One test for each call of Maven: the traced command names it, the build result is its status. */
export const parseMaven: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let name = NO_NAME
  for (const raw of log.split('\n')) {
    const line = pythonStrip(raw)
    name = TEST_OPTION.exec(line)?.[1] ?? name
    const result = BUILD_RESULT.exec(line)?.[1]
    if (result !== undefined) statuses.set(name, result === 'SUCCESS' ? 'PASSED' : 'FAILED')
  }
  return statuses
}

const NAME = '[A-Za-z0-9_$.]'
const RUNNING = new RegExp(`^(?:\\[INFO\\]${SPACE}+)?Running${SPACE}+(${NAME}+)$`, 'u')
const FAILURE = new RegExp(`^\\[ERROR\\]${SPACE}+(${NAME}+)`, 'u')
/** What may follow the names: a line number or a word boundary. */
const AFTER_FAILURE = new RegExp(`(?::${DIGIT}+(?!${WORD})|${WORD_EDGE})`, 'uy')
const COUNT = `${SPACE}*(${DIGIT}+)`
const SUMMARY = new RegExp(
  `Tests run:${COUNT},${SPACE}*Failures:${COUNT},${SPACE}*Errors:${COUNT},${SPACE}*Skipped:${COUNT}`,
  'u',
)

/**
 * SWE-rebench-V2's parser of Surefire and Failsafe logs. JUnit reports in the log fill in missing tests, then `parseMaven`, which
 * adds its placeholder name on plain logs.
 */
export const parseJavaMaven: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const running = new Set<string>()
  let current: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const started = RUNNING.exec(line)?.[1]
    if (started !== undefined) {
      current = started
      running.add(started)
      continue
    }
    const failure = readFailure(line)
    if (failure !== null) {
      const { className } = failure
      statuses.set(`${className}.${failure.test}`, failureStatus(line))
      setDefault(statuses, className, 'FAILED')
      continue
    }
    const summary = SUMMARY.exec(line)
    if (summary === null) continue
    const status = summaryStatus(summary.slice(1).map(isZero))
    const className = summaryClass(line) ?? current
    if (className !== null && className !== '') setDefault(statuses, className, status)
    current = null
  }
  for (const parse of [parseJunitText, parseMaven]) {
    for (const [name, status] of parse(log)) setDefault(statuses, name, status)
  }
  if (statuses.size === 0) for (const className of running) statuses.set(className, 'PASSED')
  return statuses
}

/**
 * `[ERROR] com.example.FooTest.testBar:12`. Imitates upstream's `(NAME+)\.(NAME+?)(?::\d+)?\b` after the mark: the last dot with a
 * word end after it, then the test's name up to the first such end. A search replaces the pattern, which takes quadratic time on a
 * line of dots.
 */
function readFailure(line: string): { className: string; test: string } | null {
  const match = FAILURE.exec(line)
  if (match === null) return null
  const end = match[0].length
  const start = end - (match[1] ?? '').length
  const isEdge = (at: number): boolean => {
    if (at < end) return isWordUnit(line, at - 1) !== isWordUnit(line, at)
    AFTER_FAILURE.lastIndex = at
    return AFTER_FAILURE.test(line)
  }
  let last = end
  while (last > start && !isEdge(last)) last -= 1
  const dot = line.lastIndexOf('.', last - 2)
  if (dot <= start) return null
  let nameEnd = dot + 2
  while (!isEdge(nameEnd)) nameEnd += 1
  return { className: line.slice(start, dot), test: line.slice(dot + 1, nameEnd) }
}

/** Of the characters in names, only `$` and the dot are no word characters. */
function isWordUnit(line: string, at: number): boolean {
  const character = line[at]
  return character !== '.' && character !== '$'
}

function failureStatus(line: string): string {
  return line.includes('Exception') && !line.includes('AssertionError') ? 'ERROR' : 'FAILED'
}

/** @param areZero of the counts run, failures, errors, skipped */
function summaryStatus([, noFailures, noErrors, noSkipped]: boolean[]): string {
  if (noFailures !== true || noErrors !== true) return 'FAILED'
  return noSkipped === true ? 'PASSED' : 'SKIPPED'
}

/** The class in the summary line itself: `… - in com.example.FooTest`. */
function summaryClass(line: string): string | null {
  const start = line.lastIndexOf(' in ')
  if (start < 0) return null
  const name = pythonStrip(line.slice(start + 4))
  let end = name.length
  while (end > 0 && '.:;'.includes(name[end - 1] ?? ' ')) end -= 1
  return name.slice(0, end)
}
