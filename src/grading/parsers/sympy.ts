import { pythonItem, pythonSplit, pythonStrip } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

/** Output of sympy's own runner: headings of failures, then one line a test. */
export const parseSympy: LogParser = (log) => readLines(log, pythonStrip)

/** SWE-rebench-V2 takes a mark of the whole file off the line's end first. */
export const parseSympyOfV2: LogParser = (log) =>
  readLines(log, (raw) => {
    const line = pythonStrip(raw)
    const isMarked = line.startsWith('test_') && (line.endsWith('[FAIL]') || line.endsWith('[OK]'))
    return isMarked ? pythonStrip(line.slice(0, line.lastIndexOf('['))) : line
  })

const ENDINGS = [
  [' E', 'ERROR'],
  [' F', 'FAILED'],
  [' ok', 'PASSED'],
] as const

function readLines(log: string, clean: (line: string) => string): StatusMap {
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
 * `___ path.py:test ___`. Upstream's pattern has stars for the underscores, so any line with a blank, `.py:` and another blank
 * matches: from after the first blank to before the last. Found by hand, because the pattern takes squared time on long lines.
 */
function failureHeading(line: string): string | null {
  const first = line.indexOf(' ')
  const last = line.lastIndexOf(' ')
  const ending = last < 4 ? -1 : line.lastIndexOf('.py:', last - 4)
  return first < 0 || ending <= first ? null : line.slice(first + 1, last)
}
