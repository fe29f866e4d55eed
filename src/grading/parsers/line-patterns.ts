/** Go, cargo and Gradle: one result a line. */
import { wordParser } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { DIGIT, pythonStrip, spacesStart } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const GO_STATUSES: Record<string, string> = { PASS: 'PASSED', FAIL: 'FAILED', SKIP: 'SKIPPED' }

/** `--- PASS: TestName (0.00s)`: the last bracket is not part of the name. A search replaces the pattern, which takes quadratic time
 *  on a line of brackets. */
export const parseGoTest: LogParser = (log) =>
  readLines(log, (line) => {
    const status = GO_STATUSES[/^--- (PASS|FAIL|SKIP): /.exec(line)?.[1] ?? '']
    const start = '--- PASS: '.length
    const end = line.endsWith(')') ? line.lastIndexOf(' (', line.length - 4) : -1
    return status === undefined || end <= start ? null : { name: line.slice(start, end), status }
  })

/** Ignored tests and "- should panic" are not read, as upstream has it. */
export const parseCargo = wordParser({
  pattern: pythonPattern(String.raw`^test\s+(\S+)\s+\.\.\.\s+(ok|FAILED)$`),
  word: 2,
  name: 1,
  statuses: { ok: 'PASSED', FAILED: 'FAILED' },
})

const DURATION = new RegExp(`^\\(${DIGIT}+(?:\\.${DIGIT}+)?s\\)$`, 'u')
const FIRST_TWO = /^[^>][^\n]/u

/**
 * `Class > test PASSED (0.1s)`, the time optional. In upstream's pattern a name begins with any two characters, the second of which
 * may be a space before the status. The line is read from its end, because the pattern takes quadratic time on a line of spaces.
 */
export const parseGradle: LogParser = (log) =>
  readLines(log, (line) => {
    const open = line.endsWith(')') ? line.lastIndexOf('(') : -1
    const hasTime = open >= 0 && DURATION.test(line.slice(open))
    const end = hasTime ? spacesStart(line, open) : line.length
    if (hasTime && end === open) return null
    const status = ['PASSED', 'FAILED'].find((word) => line.endsWith(word, end))
    const least = FIRST_TWO.exec(line)?.[0].length
    if (status === undefined || least === undefined) return null
    const blanksEnd = end - status.length
    const nameEnd = Math.max(spacesStart(line, blanksEnd), least)
    return nameEnd < blanksEnd ? { name: line.slice(0, nameEnd), status } : null
  })

function readLines(log: string, read: (line: string) => { name: string; status: string } | null): StatusMap {
  const found: StatusMap = new Map()
  for (const line of log.split('\n')) {
    const result = read(pythonStrip(line))
    if (result !== null) found.set(result.name, result.status)
  }
  return found
}
