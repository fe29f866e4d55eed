/** Test runners of PHP, as SWE-rebench-V2 parses their logs. */
import { createNameJoiner, field, group } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { pythonSplitLines, pythonStrip, pythonStripEnd } from './python-text.ts'
import { withoutDuration } from './durations.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'

const SUITE_START = pythonPattern(String.raw`^\w.`)
const TEST = pythonPattern(String.raw`^\s*([✔✘↩])\s*(.*)$`)
const STATUSES: Record<string, string> = { '✔': 'PASSED', '✘': 'FAILED', '↩': 'SKIPPED' }

/** `--testdox`: `Suite (Class)`, and `✔ name [1.2 ms]` below it. */
export const parsePhpUnit: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(log, ' > ')
  // Python prints this for a missing suite.
  let suite = 'None'
  for (const line of log.split('\n')) {
    const end = line.endsWith(')') ? line.lastIndexOf(' (', line.length - 4) : -1
    if (end > 0 && SUITE_START.test(line.slice(0, end))) {
      suite = line.slice(0, end)
      continue
    }
    const [, mark = '', name = ''] = TEST.exec(line) ?? []
    const status = STATUSES[mark]
    if (status !== undefined) statuses.set(join([suite, pythonStrip(withoutDuration(name, '[', ']'))]), status)
  }
  return statuses
}

const LAST_TIMES = [String.raw`\s{2,}`, String.raw`\s+`].map((blanks) =>
  pythonPattern(String.raw`(?<!\s)${blanks}\d+(?:\.\d+)?s\s*$`),
)

/** Removes a time after at least two whitespace characters, then one after any. */
function withoutTimes(text: string): string {
  return pythonStrip(LAST_TIMES.reduce((rest, time) => rest.replace(time, ''), pythonStripEnd(text)))
}

const readSuite = group(String.raw`^\s*FAIL(?:ED)?\s+(\S.+)$`, { ignoresCase: true })

/** A line that begins with the mark, with or without a time. */
function marked(mark: string, ignoresCase = false): (line: string) => string | null {
  const timed = field({
    before: String.raw`\s*${mark}`,
    after: String.raw`\d+(?:\.\d*)?s\b`,
    least: 1,
    blanks: 2,
    ignoresCase,
  })
  const plain = group(String.raw`^\s*${mark}\s+(.+)$`, { ignoresCase })
  return (line) => timed(line)?.name ?? plain(line)
}

/** In upstream's order. A matched rule ends the line even if the name is empty. */
const RULES = [
  { read: marked('(?:\u2A2F|x)', true), status: 'FAILED' },
  { read: marked('-'), status: 'SKIPPED' },
  { read: marked('(?:✓|✔)'), status: 'PASSED' },
] as const
const INLINE_SKIP = pythonPattern(String.raw`\(skipped\)|\bSKIPPED\b`, { ignoresCase: true })
const NO_RESULTS = ['___', '---', 'Tests:', 'Duration:'] as const

/** Pest and `artisan test`: marks before names, failed suites, and lines that contain a word for skipped. */
export const parsePhpV1: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStripEnd(raw)
    const stripped = pythonStrip(line)
    if (stripped === '' || NO_RESULTS.some((start) => stripped.startsWith(start))) continue
    const suite = readSuite(line)
    if (suite !== null) statuses.set(withoutTimes(suite), 'FAILED')
    else readMarked(line, statuses)
  }
  return statuses
}

function readMarked(line: string, statuses: StatusMap): void {
  for (const { read, status } of RULES) {
    const written = read(line)
    if (written === null) continue
    const name = withoutTimes(written)
    if (name === '') return
    if (status === 'PASSED') setDefault(statuses, name, status)
    else statuses.set(name, status)
    return
  }
  const name = INLINE_SKIP.test(line) ? withoutTimes(line) : ''
  if (name !== '') setDefault(statuses, name, 'SKIPPED')
}
