import { ANY, DIGIT, NOT_SPACE, pythonSplitLines, pythonStrip, SPACE } from './python-text.ts'
import { withoutColours } from './pytest.ts'
import type { LogParser, StatusMap } from './status-map.ts'

const STATUS = '(PASSED|FAILED|SKIPPED|ERROR)'

/** `[gw0] [ 50%] PASSED id`, of pytest-xdist. */
const OF_WORKER = new RegExp(`^\\[gw${DIGIT}+\\]${SPACE}+\\[[^\\]]*\\]${SPACE}+${STATUS}${SPACE}+(${ANY}*)$`, 'u')
/** `id PASSED [ 50%] in 0.12s` */
const IN_THE_MIDDLE = new RegExp(
  `^(${NOT_SPACE}${ANY}*?)${SPACE}+${STATUS}${SPACE}+\\[[^\\]]*\\]${SPACE}+in${SPACE}+${DIGIT}+(?:\\.${DIGIT}+)?s$`,
  'u',
)
/** `PASSED id` */
const AT_THE_START = new RegExp(`^${STATUS}${SPACE}+(${ANY}*)$`, 'u')

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
    const middle = IN_THE_MIDDLE.exec(line)
    if (middle !== null) {
      statuses.set(pythonStrip(middle[1] ?? ''), middle[2] ?? '')
      continue
    }
    const start = AT_THE_START.exec(line)
    if (start !== null) statuses.set(withoutTiming(start[2] ?? ''), start[1] ?? '')
  }
  return statuses
}

function withoutTiming(text: string): string {
  return pythonStrip(text.split(' in ')[0] ?? '')
}
