/** Test runners of Ruby, as SWE-rebench-V2 parses their logs. */
import { createNameJoiner } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { pythonSplitLines, pythonStrip, pythonStripEnd, spacesStart } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

interface Result {
  name: string
  status: string
}

function readLines(log: string, read: (line: string) => Result | null): StatusMap {
  const statuses: StatusMap = new Map()
  for (const raw of log.split('\n')) {
    const result = read(pythonStrip(raw))
    if (result !== null) statuses.set(result.name, result.status)
  }
  return statuses
}

/** `name. = 0.01 s = .`: the name ends at the last `. ` before the last `=` that precedes the outcome. */
export const parseMinitest: LogParser = (log) =>
  readLines(log, (line) => {
    const outcome = Math.max(line.lastIndexOf('.'), line.lastIndexOf('F'), line.lastIndexOf('E'))
    const equals = outcome < 1 ? -1 : line.lastIndexOf('=', outcome - 1)
    const end = equals < 2 ? -1 : line.lastIndexOf('. ', equals - 2)
    return end < 1 ? null : { name: line.slice(0, end), status: line[outcome] === '.' ? 'PASSED' : 'FAILED' }
  })

const PROGRESS = / (\.+)(F?)/g

/** The format `progress`: `name ...F`. */
export const parseCucumber: LogParser = (log) =>
  readLines(log, (line) => {
    let last: Result | null = null
    for (const { index, 1: dots = '', 2: failed } of line.matchAll(PROGRESS)) {
      if (failed === 'F') last = { name: line.slice(0, index), status: 'FAILED' }
      else if (dots.length > 1) last = { name: line.slice(0, index), status: 'PASSED' }
    }
    return last
  })

const UNIT_STATUSES: Record<string, string> = { '.': 'PASSED', E: 'FAILED', F: 'FAILED', O: 'SKIPPED' }
const UNIT_OUTCOME = pythonPattern(String.raw`:\s+(\.|E\b|F\b|O\b)`, { flags: 'g' })
const UNIT_MARK = 'test: '

/** `test: name: .`: the name ends at the last colon that an outcome follows. */
export const parseRubyUnit: LogParser = (log) =>
  readLines(log, (line) => {
    let last: Result | null = null
    for (const { index, 1: outcome = '' } of line.matchAll(UNIT_OUTCOME)) {
      const start = line.startsWith(UNIT_MARK) && index > UNIT_MARK.length ? UNIT_MARK.length : 0
      if (index > 0) last = { name: line.slice(start, index), status: UNIT_STATUSES[outcome] ?? '' }
    }
    return last
  })

/** `name - passed` */
export const parseRspecJson: LogParser = (log) =>
  readLines(log, (line) => {
    const [passed, failed] = [line.lastIndexOf(' - passed'), line.lastIndexOf(' - failed')]
    const end = Math.max(passed, failed)
    return end < 1 ? null : { name: line.slice(0, end), status: passed > failed ? 'PASSED' : 'FAILED' }
  })

const SUITE = /^[A-Z][A-Za-z0-9_]*$/
const METHOD = pythonPattern(
  String.raw`^\s*(test[^A-Z]+)(PASSED|PASS|FAILURE|FAIL|ERROR|SKIPPED|SKIP)(?:\s*\([0-9.]+s\))?$`,
)
const METHOD_STATUSES: Record<string, string> = { P: 'PASSED', F: 'FAILED', E: 'ERROR', S: 'SKIPPED' }
const SEVERITY: Record<string, number> = { PASSED: 0, SKIPPED: 0, FAILED: 1, ERROR: 2 }

/** Suites on separate lines, with `  test_name   PASS (0.02s)` below; the worst result of a test counts. */
export const parseRubyV1: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(log, '::')
  let suite: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStripEnd(raw)
    if (SUITE.test(line)) {
      suite = line
      continue
    }
    const [, written = '', word = ''] = METHOD.exec(line) ?? []
    // The name must end in whitespace and have another character after `test`, which may be whitespace too.
    const blanks = written.length - spacesStart(written, written.length)
    if (blanks === 0 || written.length - 1 <= 'test'.length) continue
    const test = pythonStrip(written)
    const name = suite === null ? test : join([suite, test])
    const status = METHOD_STATUSES[word.charAt(0)] ?? ''
    const known = statuses.get(name)
    if (known === undefined || (SEVERITY[status] ?? 0) > (SEVERITY[known] ?? 0)) statuses.set(name, status)
  }
  return statuses
}

const RESULT = pythonPattern(String.raw`(?<!\s)\s+=\s+[\d.]+\s+s\s+=\s+([.FES])$`)
const RESULT_STATUSES: Record<string, string> = { '.': 'PASSED', F: 'FAILED', E: 'FAILED', S: 'SKIPPED' }

/** `Suite#test = 5.30 s = .` */
export const parseRubyV2: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const match = RESULT.exec(line)
    const hash = line.indexOf('#', 1)
    if (match === null || hash < 0) continue
    // At least one character must follow the first `#`; it may be whitespace if more follows.
    const end = Math.max(match.index, hash + 2)
    const blanksEnd = line.indexOf('=', match.index)
    if (end < blanksEnd) statuses.set(line.slice(0, end), RESULT_STATUSES[match[1] ?? ''] ?? '')
  }
  return statuses
}
