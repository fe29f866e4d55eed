import { parseJunitText } from './junit-text.ts'
import { ANY, DIGIT, isZero, NOT_SPACE, pythonSplitLines, pythonStrip, SPACE, WORD_EDGE } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const NO_NAME = '---NO TEST NAME FOUND YET---'
const TEST_OPTION = new RegExp(`^${ANY}*-Dtest=(${NOT_SPACE}+)`, 'u')
const BUILD_RESULT = new RegExp(`^${ANY}*BUILD (SUCCESS|FAILURE)$`, 'u')

/** One test a call of Maven: its name from the traced command, its status from the build's. */
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
const FAILURE = new RegExp(`^\\[ERROR\\]${SPACE}+(${NAME}+)\\.(${NAME}+?)(?::${DIGIT}+)?${WORD_EDGE}`, 'u')
const COUNT = `${SPACE}*(${DIGIT}+)`
const SUMMARY = new RegExp(
  `Tests run:${COUNT},${SPACE}*Failures:${COUNT},${SPACE}*Errors:${COUNT},${SPACE}*Skipped:${COUNT}`,
  'u',
)

/**
 * SWE-rebench-V2's parser of Surefire and Failsafe logs. What the lines leave open is filled from JUnit reports in the log,
 * then from `parseMaven`, which adds its placeholder name on plain logs.
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
    const failure = FAILURE.exec(line)
    if (failure !== null) {
      const className = failure[1] ?? ''
      statuses.set(`${className}.${failure[2] ?? ''}`, failureStatus(line))
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

function failureStatus(line: string): string {
  return line.includes('Exception') && !line.includes('AssertionError') ? 'ERROR' : 'FAILED'
}

/** @param areZero of the counts run, failures, errors, skipped */
function summaryStatus([, noFailures, noErrors, noSkipped]: boolean[]): string {
  if (noFailures !== true || noErrors !== true) return 'FAILED'
  return noSkipped === true ? 'PASSED' : 'SKIPPED'
}

/** The class that the summary itself names: `… - in com.example.FooTest`. */
function summaryClass(line: string): string | null {
  const start = line.lastIndexOf(' in ')
  return start < 0 ? null : pythonStrip(line.slice(start + 4)).replace(/[.:;]+$/, '')
}

function setDefault(statuses: StatusMap, name: string, status: string): void {
  if (!statuses.has(name)) statuses.set(name, status)
}
