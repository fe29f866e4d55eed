import { pythonItem, pythonSplit } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

/** Summary lines, and lines of the verbose report with the status in the middle. A line of one word raises. */
export const parseSeaborn: LogParser = (log) => readLines(log, (words) => words)

/** swebench 5 leaves lines of one word out. */
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
