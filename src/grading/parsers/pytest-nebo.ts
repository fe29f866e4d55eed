import { DIGIT, pythonSplitLines, pythonStrip, SPACE } from './python-text.ts'
import { withoutColours } from './pytest.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const STATUS = '(PASSED|FAILED|SKIPPED|ERROR)'

/** `[gw0] [ 50%] PASSED id`, of pytest-xdist. */
const OF_WORKER = new RegExp(`^\\[gw${DIGIT}+\\]${SPACE}+\\[[^\\]]*\\]${SPACE}+${STATUS}${SPACE}+([^]*)`, 'u')
/** ` PASSED [` in the middle of a line, from the first blank of a run. */
const IN_THE_MIDDLE = new RegExp(`(?<!${SPACE})${SPACE}+${STATUS}${SPACE}+\\[`, 'gu')
const TIME_AT_THE_END = new RegExp(`^${SPACE}+in${SPACE}+${DIGIT}+(?:\\.${DIGIT}+)?s$`, 'u')
/** `PASSED id` */
const AT_THE_START = new RegExp(`^${STATUS}${SPACE}+([^]*)`, 'u')

/** SWE-rebench-V2's parser for progress lines of pytest with and without workers; ids keep their blanks. */
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
 * `id PASSED [ 50%] in 0.12s`: upstream's pattern takes the first status behind which one pair of brackets and a time end the line.
 * Read from the line's end, because the pattern takes cubed time on long ones.
 */
function readMiddle(line: string): { id: string; status: string } | null {
  const close = line.lastIndexOf(']')
  if (close < 0 || !TIME_AT_THE_END.test(line.slice(close + 1))) return null
  const before = line.lastIndexOf(']', close - 1)
  for (const match of line.matchAll(IN_THE_MIDDLE)) {
    const open = match.index + match[0].length - 1
    if (match.index > 0 && open > before && open < close) {
      return { id: line.slice(0, match.index), status: match[1] ?? '' }
    }
  }
  return null
}

function withoutTiming(text: string): string {
  return pythonStrip(text.split(' in ')[0] ?? '')
}
