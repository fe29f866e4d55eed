/** Test runners of R, as SWE-rebench-V2 parses their logs. */
import { pythonPattern } from './python-pattern.ts'
import { pythonItem, pythonSplit, pythonSplitLines, pythonStrip, spacesStart } from './python-text.ts'
import { setDefault, type LogParser, type StatusMap } from './status-map.ts'

const CONTEXT = pythonPattern(String.raw`^([✔✖])\s+\|[^|]+\|\s+(.+)$`)
const PROBLEM = pythonPattern(String.raw`^(Failure|Error)\s+\([^)]+\):\s+(.+)$`)
const TIME = pythonPattern(String.raw`^\[\s*\d+(?:\.\d+)?\s*[a-zA-Z]+\]$`)
const SECTION = ['── Failed tests ──', '== Failed tests =='] as const
const SECTION_END = ['[ FAIL', '══ Results ══'] as const

/** testthat: marked contexts, then the tests in the section of failures. */
export const parseR: LogParser = (log) => {
  const lines = pythonSplitLines(log).map(pythonStrip)
  const statuses: StatusMap = new Map()
  for (const line of lines) {
    const [, mark, name = ''] = CONTEXT.exec(line) ?? []
    if (mark !== undefined) statuses.set(withoutTime(name), mark === '✔' ? 'PASSED' : 'FAILED')
  }
  const start = lines.findIndex((line) => SECTION.some((words) => line.startsWith(words)))
  for (const line of start < 0 ? [] : lines.slice(start)) {
    if (SECTION_END.some((words) => line.startsWith(words))) break
    const [, problem, name = ''] = PROBLEM.exec(line) ?? []
    if (problem !== undefined) statuses.set(withoutTime(name), problem === 'Error' ? 'ERROR' : 'FAILED')
  }
  return statuses
}

function withoutTime(name: string): string {
  const open = name.lastIndexOf('[')
  return open >= 0 && TIME.test(name.slice(open)) ? name.slice(0, spacesStart(name, open)) : name
}

const CHECK = '* checking '
const WITH_STATUS = pythonPattern(String.raw`^([A-Z]+)$`)
/** Any other word counts as passed on the line of the check, and is ignored on a later line. */
const CHECK_STATUSES: Record<string, string> = {
  OK: 'PASSED',
  NOTE: 'PASSED',
  NOTES: 'PASSED',
  WARNING: 'FAILED',
  WARNINGS: 'FAILED',
  ERROR: 'ERROR',
  ERRORS: 'ERROR',
  FAIL: 'FAILED',
  FAILED: 'FAILED',
  SKIPPED: 'SKIPPED',
}

/** `R CMD check`: `* checking name ... OK`, or the status on a later line. As upstream has it, a later line of only dots raises. */
export const parseRV2: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let pending: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    if (line === '') continue
    if (pending !== null) {
      const status = statusOf(pythonItem(pythonSplit(withoutSigns(line)), 0).toUpperCase())
      if (status === undefined) continue
      statuses.set(pending, status)
      pending = null
      continue
    }
    if (!line.startsWith(CHECK)) continue
    const dots = line.lastIndexOf(' ... ')
    const word = dots > CHECK.length ? (WITH_STATUS.exec(line.slice(dots + 5))?.[1] ?? null) : null
    if (word !== null) statuses.set(line.slice(CHECK.length, dots), statusOf(word) ?? 'PASSED')
    else if (line.endsWith(' ...') && line.length > CHECK.length + 4) pending = line.slice(CHECK.length, -4)
  }
  if (pending !== null) setDefault(statuses, pending, 'PASSED')
  return statuses
}

function statusOf(word: string): string | undefined {
  return Object.hasOwn(CHECK_STATUSES, word) ? CHECK_STATUSES[word] : undefined
}

/** `str.strip('.:!')` */
function withoutSigns(text: string): string {
  let [start, end] = [0, text.length]
  while (start < end && '.:!'.includes(text.charAt(start))) start += 1
  while (end > start && '.:!'.includes(text.charAt(end - 1))) end -= 1
  return text.slice(start, end)
}
