/** Test runners of Haskell, as SWE-rebench-V2 parses their logs. */
import { createNameJoiner, fieldName, group } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { pythonSplitLines, pythonStrip, pythonStripEnd, spacesStart } from './python-text.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'
import { withoutColourCodes } from './terminal-text.ts'

const NOISE = ['Test suite ', 'Linking ', 'Building ', 'Running  '] as const
const LEAD = pythonPattern(String.raw`^\s*`)
const TASTY_STATUS = String.raw`:\s*(OK|PASS|FAIL|ERROR|SKIP|PENDING)(?!\w)`
const TASTY = pythonPattern(TASTY_STATUS, { flags: 'g' })
const TASTY_STATUSES: Record<string, string> = {
  OK: 'PASSED',
  PASS: 'PASSED',
  FAIL: 'FAILED',
  ERROR: 'ERROR',
  SKIP: 'SKIPPED',
  PENDING: 'SKIPPED',
}

/** `name: OK (0.1s)`: the name ends at the first colon that a status follows; it is empty if only whitespace precedes the colon. */
function readTasty(line: string): { name: string; status: string } | null {
  const start = LEAD.exec(line)?.[0].length ?? 0
  for (const from of [start + 1, start]) {
    TASTY.lastIndex = from
    const match = TASTY.exec(line)
    if (match === null || from === 0) continue
    const name = line.slice(start, Math.max(start, spacesStart(line, match.index)))
    return { name, status: TASTY_STATUSES[match[1] ?? ''] ?? '' }
  }
  return null
}

const CHECKED = pythonPattern(String.raw`^\s*[✓✔]\s+(.+)$`)
const BRACKET = pythonPattern(String.raw`(?<!\s)\s+\(`)

function readChecked(line: string): string | null {
  const name = CHECKED.exec(line)?.[1]
  if (name === undefined) return null
  return name.endsWith(')') ? name.slice(0, BRACKET.exec(name)?.index) : name
}

const HSPEC_RULES = [
  { read: fieldName({ before: '', after: String.raw`\[[✓✔]\]$`, least: 1 }), status: 'PASSED', keeps: true },
  { read: fieldName({ before: '', after: String.raw`\[[✗✘]\]$`, least: 1 }), status: 'FAILED' },
  { read: readChecked, status: 'PASSED', keeps: true },
  { read: group(String.raw`^\s*[✗✘]\s+(.+)$`), status: 'FAILED' },
  { read: group(String.raw`^\s*\d+\)\s+(.+)$`), status: 'FAILED' },
  { read: group(String.raw`^###\s+Failure\s+in:\s+(.+)$`), status: 'FAILED' },
  { read: group(String.raw`^###\s+Error\s+in:\s+(.+)$`), status: 'ERROR' },
] as const

/** Tasty, Hspec and HUnit. */
export const parseHaskell: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStripEnd(withoutColourCodes(raw))
    if (NOISE.some((words) => line.includes(words))) continue
    const tasty = readTasty(line)
    if (tasty !== null) {
      statuses.set(pythonStrip(tasty.name), tasty.status)
      continue
    }
    for (const rule of HSPEC_RULES) {
      const name = rule.read(line)
      if (name === null) continue
      if ('keeps' in rule) setDefault(statuses, pythonStrip(name), rule.status)
      else statuses.set(pythonStrip(name), rule.status)
      break
    }
  }
  return statuses
}

const FAILURES_END = ['To rerun use:', 'Randomized with seed', 'Finished in ', 'Test suite '] as const
const FAILURE_HEADER = pythonPattern(String.raw`^\d+\)\s+(.*)$`)
const NO_TREE = [
  'Downloading',
  'Building',
  'Installing',
  'Completed',
  'Starting',
  'Preprocessing',
  'Configuring',
  'Linking',
  'Resolving dependencies',
  'Build profile',
  'In order, the following will be built',
  'Error:',
  'Test suite ',
  'Running ',
] as const
const UNCHANGED = "Golden and Actual output didn't change"
const FAILED = pythonPattern(String.raw`(?<!\s)\s+FAILED\s*\[\d+\]$`)
const PENDING = pythonPattern(String.raw`(?<!\s)\s+(?:PENDING|SKIPPED)\b`, { ignoresCase: true })

/** Hspec's tree, indented by two spaces a level: every line without deeper lines below it is a test. The failures listed after the
 *  tree are applied last. */
export const parseHaskellV2: LogParser = (log) => {
  const lines = pythonSplitLines(log)
  const failures = lines.findIndex((line) => pythonStrip(line) === 'Failures:')
  const end = failures < 0 ? lines.length : failures
  const statuses = readTree(log, lines.slice(treeStart(lines), end))
  if (failures >= 0) for (const name of listedFailures(lines.slice(failures + 1))) statuses.set(name, 'FAILED')
  return statuses
}

function treeStart(lines: readonly string[]): number {
  const running = lines.findIndex((line) => line.startsWith('Test suite ') && line.includes(': RUNNING...'))
  if (running >= 0) return running + 1
  const isTree = (line: string): boolean =>
    line !== '' && !line.startsWith(' ') && line.includes('.') && !NO_TREE.some((words) => line.includes(words))
  return Math.max(0, lines.findIndex(isTree))
}

function listedFailures(lines: readonly string[]): string[] {
  const names: string[] = []
  for (const raw of lines) {
    const line = pythonStrip(raw)
    if (FAILURES_END.some((words) => line.startsWith(words))) break
    const header = FAILURE_HEADER.exec(line)?.[1]
    if (header !== undefined) names.push(header.split(',').map(pythonStrip).join('.'))
  }
  return names
}

function readTree(text: string, all: readonly string[]): StatusMap {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(text, '.')
  const lines = all.filter((line) => !['', UNCHANGED].includes(pythonStrip(line)))
  const stack: string[] = []
  for (const [at, raw] of lines.entries()) {
    const indent = leadingBlanks(raw)
    const level = Math.floor(indent / 2)
    const { name, status } = readNode(pythonStrip(raw))
    while (stack.length < level) stack.push('')
    stack.splice(level, stack.length, name)
    const next = lines[at + 1]
    if (next !== undefined && leadingBlanks(next) > indent) continue
    statuses.set(join(stack.filter((part) => part !== '')), status)
  }
  return statuses
}

function readNode(line: string): { name: string; status: string } {
  const failed = FAILED.exec(line)
  if (failed !== null) return { name: line.slice(0, failed.index), status: 'FAILED' }
  const pending = PENDING.exec(line)
  return pending === null ? { name: line, status: 'PASSED' } : { name: line.slice(0, pending.index), status: 'SKIPPED' }
}

/** Counts leading spaces only; no other whitespace indents here. */
function leadingBlanks(line: string): number {
  return line.length - line.replace(/^ +/, '').length
}
