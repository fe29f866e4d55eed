/** Build tools of Java, Kotlin, Scala and Clojure, as SWE-rebench-V2 parses their logs; Maven's parsers are in `maven.ts`. */
import { closesLine, createNameJoiner, field, wordParser } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { DIGIT, pythonInteger, pythonSplit, pythonSplitLines, pythonStrip, spacesStart } from './python-text.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'

/** `[junit] [PASS] name` */
export const parseAnt = wordParser({
  pattern: pythonPattern(String.raw`^\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)$`),
  word: 1,
  name: 2,
  statuses: { PASS: 'PASSED', FAIL: 'FAILED', ERR: 'FAILED' },
})

const RUNNING = pythonPattern(String.raw`^Running\s+(.+)$`)
const CLASS_COUNTS = pythonPattern(
  String.raw`^Tests run:\s+(\d+),\s+Failures:\s+(\d+),\s+Errors:\s+(\d+),\s+Skipped:\s+(\d+)`,
)

/** The name of a class, then its counts. */
export const parseKotlinJunit: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let current: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const started = RUNNING.exec(line)?.[1]
    const counts = CLASS_COUNTS.exec(line)
    if (started !== undefined) current = started
    if (counts === null || current === null) continue
    const [, failures = 0n, errors = 0n, skipped = 0n] = counts.slice(1).map(pythonInteger)
    statuses.set(current, failures > 0n || errors > 0n ? 'FAILED' : skipped > 0n ? 'SKIPPED' : 'PASSED')
    current = null
  }
  return statuses
}

const readModule = field({
  before: String.raw`\[INFO\]`,
  after: String.raw`\.\.+\s+(SUCCESS|FAILURE|SKIPPED)(?:\s|\[|$)`,
  least: 1,
})
const MODULE_STATUSES: Record<string, string> = { SUCCESS: 'PASSED', FAILURE: 'FAILED', SKIPPED: 'SKIPPED' }
const COUNT = `\\s*(${DIGIT}+)`
const COUNTS = pythonPattern(`Tests run:${COUNT},\\s*Failures:${COUNT},\\s*Errors:${COUNT},\\s*Skipped:${COUNT}`)

/** Maven's summary of its modules; the first test counts become the result of `__suite__`. */
export const parseJavaMavenV2: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const module = readModule(line)
    if (module !== null) {
      statuses.set(module.name, MODULE_STATUSES[module.match[1] ?? ''] ?? '')
      continue
    }
    const counts = COUNTS.exec(line)
    if (counts === null) continue
    const [run, failures = 0n, errors = 0n, skipped] = counts.slice(1).map(pythonInteger)
    const passed = skipped === run ? 'SKIPPED' : 'PASSED'
    setDefault(statuses, '__suite__', failures > 0n ? 'FAILED' : errors > 0n ? 'ERROR' : passed)
  }
  return statuses
}

const LEIN = pythonPattern(String.raw`^lein test (.+)$`)

/** Leiningen: a namespace passes unless a failure or an error follows. */
export const parseLein: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let current: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const named = LEIN.exec(line)?.[1]
    if (named !== undefined) {
      const words = pythonSplit(named)
      const names = words[0] === ':only' ? [pythonStrip(words.slice(1).join(' ').split('/')[0] ?? '')] : words
      for (const name of names) {
        if (name !== '') setDefault(statuses, name, 'PASSED')
        current = name === '' ? null : name
      }
    } else if (current !== null && line.startsWith('FAIL in')) statuses.set(current, 'FAILED')
    else if (current !== null && line.startsWith('ERROR in')) statuses.set(current, 'ERROR')
  }
  return statuses
}

const SCALA_TEST = String.raw`\[info\]\s+-`
const SCALA_RULES = [
  { read: field({ before: SCALA_TEST, after: String.raw`\*\*\*\s+FAILED\s+\*\*\*\s+\(` }), status: 'FAILED' },
  { read: field({ before: SCALA_TEST, after: String.raw`!!!\s+CANCELED\s+!!!\s+\(` }), status: 'SKIPPED' },
  { read: field({ before: SCALA_TEST, after: String.raw`!!!\s+IGNORED\s+!!!` }), status: 'SKIPPED', isOpen: true },
  { read: field({ before: SCALA_TEST, after: String.raw`\(` }), status: 'PASSED' },
] as const

/** ScalaTest: `[info] - name (2 ms)`, with `*** FAILED ***` and the like before the time. */
export const parseScala: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const closes = closesLine(line)
    for (const rule of SCALA_RULES) {
      const found = rule.read(line, ({ index, 0: { length } }) => 'isOpen' in rule || closes(index + length))
      if (found === null) continue
      if (rule.status === 'PASSED') setDefault(statuses, found.name, rule.status)
      else statuses.set(found.name, rule.status)
      break
    }
  }
  return statuses
}

// oxlint-disable-next-line no-control-regex -- the escape may be lost
const CODES = /\u001B\[[0-9;]*m|\[[0-9]{1,2}m/g
const SCALA_TIME = String.raw`[\d.]+[mμn]?s`
const coloured = (mark: string, colour: string): RegExp =>
  pythonPattern(String.raw`^${mark}\s+\[0m\[${colour}m(.*?)\[0m\s+\[90m${SCALA_TIME}\[0m$`)
const SCALA_V2_RULES = [
  { pattern: coloured('x', '31'), read: field({ before: String.raw`\s*x`, after: String.raw`${SCALA_TIME}\s*$` }) },
  {
    pattern: coloured(String.raw`\+`, '32'),
    read: field({ before: String.raw`\s*\+`, after: String.raw`${SCALA_TIME}\s*$` }),
  },
] as const

/** munit and weaver: `+ name 0.01s` and `x name 2ms`, even if the colour codes were printed as text. */
export const parseScalaV2: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const clean = line.replaceAll(CODES, '')
    for (const [at, { pattern, read }] of SCALA_V2_RULES.entries()) {
      const name = pattern.exec(line)?.[1] ?? read(clean)?.name
      if (name === undefined) continue
      statuses.set(name, at === 0 ? 'FAILED' : 'PASSED')
      break
    }
  }
  return statuses
}

const SCALA_V3_TEST = pythonPattern(String.raw`^\[info\]\s+-\s+(.*)$`)
const SCALA_V3_STATUS = pythonPattern(String.raw`(?<!\s)\s+\*{3}\s+([A-Z]+)\s+\*{3}$`)
const SCALA_V3_TIME = pythonPattern(String.raw`^\(\d+\s+\w+\)$`)
const SCALA_V3_SUITE = pythonPattern(String.raw`^\[info\]\s+(\S.*)$`)
/** Any other word is kept as the status. */
const SCALA_V3_STATUSES: Record<string, string> = {
  ABORTED: 'ERROR',
  IGNORED: 'SKIPPED',
  CANCELED: 'SKIPPED',
  CANCELLED: 'SKIPPED',
  PENDING: 'SKIPPED',
}
const NO_SUITES = [
  'Run completed',
  'Total number',
  'Suites:',
  'Tests:',
  'All tests',
  'compiling',
  'done compiling',
  'loading',
  'welcome to',
  'set current',
] as const

/** ScalaTest with suites: any other `[info]` line is read as a suite's name. */
export const parseScalaV3: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(log, ': ')
  let suite: string | null = null
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    if (!line.startsWith('[info] -')) {
      const written = SCALA_V3_SUITE.exec(line)?.[1]
      // A name that begins with a dash is a suite only after two spaces.
      const isSuite = written?.startsWith('-') === true ? line.length > '[info] '.length + written.length : true
      if (written !== undefined && isSuite && !NO_SUITES.some((words) => written.includes(words))) suite = written
      continue
    }
    const written = SCALA_V3_TEST.exec(line)?.[1]
    if (written === undefined) continue
    const word = SCALA_V3_STATUS.exec(written)
    const test = withoutTime(written.slice(0, word?.index))
    const name = suite === null ? test : join([suite, test])
    if (word === null) setDefault(statuses, name, 'PASSED')
    else statuses.set(name, SCALA_V3_STATUSES[word[1] ?? ''] ?? word[1] ?? '')
  }
  return statuses
}

function withoutTime(name: string): string {
  const open = name.lastIndexOf('(')
  return open >= 0 && SCALA_V3_TIME.test(name.slice(open)) ? name.slice(0, spacesStart(name, open)) : name
}
