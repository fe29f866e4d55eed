/** C, C++ and programs written in them, as SWE-rebench-V2 parses their logs. */
import { field, fieldName, rulesParser, wordParser } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { pythonSplitLines, pythonStrip } from './python-text.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'

const REDIS_STATUSES: Record<string, string> = { ok: 'PASSED', err: 'FAILED', skip: 'SKIPPED', ignore: 'SKIPPED' }
const REDIS = pythonPattern(String.raw`^\[(ok|err|skip|ignore)\]:\s(.+?)(?:\s\(\d+\s*m?s\))?$`)
const REDIS_PLACE = pythonPattern(String.raw`(?<!\s)\s+in\s+\S+$`)

/** `[err]: name in tests/unit/x.tcl`: in a failure, the file is not part of the name. */
export const parseRedis: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of log.split('\n')) {
    const [, word = '', name = ''] = REDIS.exec(pythonStrip(raw)) ?? []
    const status = REDIS_STATUSES[word]
    if (status !== undefined) statuses.set(word === 'err' ? name.replace(REDIS_PLACE, '') : name, status)
  }
  return statuses
}

export const parseJq = wordParser({
  pattern: pythonPattern(String.raw`^(PASS|FAIL):\s(.+)$`),
  word: 1,
  name: 2,
  statuses: { PASS: 'PASSED', FAIL: 'FAILED' },
})

export const parseMicropython = wordParser({
  pattern: pythonPattern(String.raw`^(pass|FAIL|skip)\s+(.+)$`),
  word: 1,
  name: 2,
  statuses: { pass: 'PASSED', FAIL: 'FAILED', skip: 'SKIPPED' },
})

const GOOGLE_STATUS = pythonPattern(String.raw`\[\s*(OK|FAILED)\s*\]\s`, { flags: 'g' })
const GOOGLE_TIME = pythonPattern(String.raw`\s\(`, { flags: 'g' })

/** `[       OK ] Suite.Test (0 ms)`: the last status before the last opening bracket. */
export const parseGoogleTest: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of log.split('\n')) {
    const line = pythonStrip(raw)
    if (!line.endsWith(')')) continue
    const end = [...line.matchAll(GOOGLE_TIME)].at(-1)?.index ?? -1
    let found: { start: number; word: string } | null = null
    for (const match of line.matchAll(GOOGLE_STATUS)) {
      const start = match.index + match[0].length
      if (start <= end) found = { start, word: match[1] ?? '' }
    }
    if (found !== null) statuses.set(line.slice(found.start, end), found.word === 'OK' ? 'PASSED' : 'FAILED')
  }
  return statuses
}

const CPP_STATUSES = ['PASSED', 'FAILED', 'SKIPPED', 'ERROR'].map((status) => ({
  status,
  pattern: pythonPattern(String.raw`(?<!\s)\s+${status}`),
}))
const FAILURES = `${'='.repeat(35)} FAILURES ${'='.repeat(35)}`
const [HEAD, TAIL] = [`${'_'.repeat(27)} `, ` ${'_'.repeat(27)}`]

/** Progress lines of pytest, named by the part after the last `::`. After the heading of the failures only the headings of failed
 *  tests count. */
export const parseCpp: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let isInFailures = false
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    if (line.startsWith(FAILURES)) isInFailures = true
    else if (isInFailures) {
      const isHeading = line.startsWith(HEAD) && line.endsWith(TAIL) && line.length >= HEAD.length + TAIL.length
      if (isHeading) statuses.set(line.slice(HEAD.length, line.length - TAIL.length), 'FAILED')
    } else readProgress(line, statuses)
  }
  return statuses
}

function readProgress(line: string, statuses: StatusMap): void {
  for (const { status, pattern } of CPP_STATUSES) {
    const end = pattern.exec(line)?.index
    if (end === undefined) continue
    const name = line.slice(0, end).split('::').at(-1) ?? ''
    if (status === 'PASSED') setDefault(statuses, name, status)
    else statuses.set(name, status)
    return
  }
}

export const parseCppV2 = rulesParser([
  { read: fieldName({ before: 'Test', after: 'passed$' }), status: 'PASSED', keeps: true },
  { read: fieldName({ before: 'Test', after: 'failed$' }), status: 'FAILED' },
  { read: fieldName({ before: 'Test', after: 'skipped$' }), status: 'SKIPPED' },
])

const anyCase = (source: string): RegExp => pythonPattern(source, { ignoresCase: true })
const BOTAN = anyCase(String.raw`(?<!\s)\s+ran\s+(\d+)\s+tests\s+in\s+[\d.]+\s+(?:msec|sec)\s+(.+)$`)
const BOTAN_FAILED = anyCase(String.raw`\bfailed\b`)
const COUNTER = pythonPattern(String.raw`^\[[0-9]+/[0-9]+\]\s*`)
const DOTS = pythonPattern(String.raw`\.\.\.\s*(\w+)$`)
/** In order of precedence. */
const SIGNS = [
  ['SKIPPED', anyCase(String.raw`\bSKIPPED\b`)],
  ['FAILED', anyCase(String.raw`\bFAILED\b|\bFAIL\b|\bFailure\b`)],
  ['PASSED', anyCase(String.raw`\bOK\b|\bPASSED\b`)],
] as const

/** `[1/9] name... OK`, `name ran 9 tests in 1.2 msec all ok`, and any other line that contains a status word; there the whole line is
 *  the name. */
export const parseCppV3: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    if (line === '') continue
    const botan = BOTAN.exec(line)
    if (botan !== null) {
      const tail = pythonStrip(botan[2] ?? '')
      const name = `${pythonStrip(line.slice(0, botan.index))} ran ${botan[1] ?? ''} tests ${tail}`
      statuses.set(name, BOTAN_FAILED.test(tail) ? 'FAILED' : 'PASSED')
      continue
    }
    const dots = DOTS.exec(line)
    const word = (dots?.[1] ?? '').toUpperCase()
    const status = SIGNS.find(([, pattern]) => pattern.test(word) || pattern.test(line))?.[0]
    if (dots !== null) {
      const start = COUNTER.exec(line)?.[0].length ?? 0
      statuses.set(pythonStrip(line.slice(start, Math.max(start, dots.index))), status ?? 'ERROR')
    } else if (status !== undefined) statuses.set(line, status)
  }
  return statuses
}

const readCtest = field({
  before: String.raw`\s*\d+/\d+\s+Test\s+#\d+:`,
  after: String.raw`\.+\s+(Passed|Failed|Skipped|Timeout)\b`,
  least: 1,
  ignoresCase: true,
})
const CTEST_STATUSES: Record<string, string> = { PASSED: 'PASSED', FAILED: 'FAILED', TIMEOUT: 'FAILED' }

/** CTest: `1/9 Test #1: name .... Passed`. */
export const parseCppV4: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const line of pythonSplitLines(log)) {
    const found = readCtest(line)
    if (found === null) continue
    statuses.set(pythonStrip(found.name), CTEST_STATUSES[(found.match[1] ?? '').toUpperCase()] ?? 'SKIPPED')
  }
  return statuses
}
