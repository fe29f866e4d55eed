import { ANY, LINE_END, LINE_START, pythonItem, pythonSplit, pythonStrip, SPACE } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

/** A test that prints over two lines is known by this sentence alone. */
const VERSION_TEST = '--version is equivalent to version'
/** This migration's own output stands before a test's name. */
const MIGRATION = 'Applying sites.0002_alter_domain_unique...test_no_migrations'
const PASSED_ENDINGS = [' ... ok', ' ... OK', ' ...  OK'] as const

/**
 * Output of django's own runner. Lenient as upstream is: any line that starts with "ok" credits the test named last, also
 * after it failed; expected failures and unexpected successes are not recorded.
 */
export const parseDjango: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let previous: string | null = null
  for (const raw of log.split('\n')) {
    const line = pythonStrip(raw)
    if (line.includes(VERSION_TEST)) statuses.set(VERSION_TEST, 'PASSED')
    if (line.includes(' ... ')) previous = before(line, ' ... ')
    readLine(line, statuses)
    if (shown(line).startsWith('ok') && previous !== null) statuses.set(previous, 'PASSED')
  }
  for (const name of interruptedTests(log)) statuses.set(name, 'PASSED')
  return statuses
}

function readLine(raw: string, statuses: StatusMap): void {
  const ending = PASSED_ENDINGS.find((candidate) => raw.endsWith(candidate))
  const line = shown(raw)
  if (ending !== undefined) statuses.set(line.slice(0, -ending.length), 'PASSED')
  if (line.includes(' ... skipped')) statuses.set(before(line, ' ... skipped'), 'SKIPPED')
  if (line.endsWith(' ... FAIL')) statuses.set(before(line, ' ... FAIL'), 'FAILED')
  if (line.startsWith('FAIL:')) statuses.set(pythonItem(pythonSplit(line), 1), 'FAILED')
  if (line.endsWith(' ... ERROR')) statuses.set(before(line, ' ... ERROR'), 'ERROR')
  if (line.startsWith('ERROR:')) statuses.set(pythonItem(pythonSplit(line), 1), 'ERROR')
}

/** The line as the later rules see it: without the migration's output, where a passed test follows it. */
function shown(line: string): string {
  const isPassed = PASSED_ENDINGS.some((ending) => line.endsWith(ending))
  return isPassed && line.startsWith(MIGRATION) ? pythonStrip(line.slice(line.indexOf('...') + 3)) : line
}

function before(line: string, separator: string): string {
  return line.slice(0, line.indexOf(separator))
}

const NAME_AND_DOTS = `${LINE_START}(${ANY}*?)${SPACE}\\.\\.\\.${SPACE}`
const SILENCED = 'System check identified no issues \\(0 silenced\\)'
const SERVER_ERROR = new RegExp(`${NAME_AND_DOTS}Internal Server Error: /${ANY}*/\\nok${LINE_END}`, 'gu')
const SYSTEM_CHECK = new RegExp(`${NAME_AND_DOTS}${SILENCED}\\nok${LINE_END}`, 'gu')
const INSTALLED = new RegExp(`${NAME_AND_DOTS}Testing against Django installed in `, 'gu')
const INSTALLED_END = new RegExp(` silenced\\)\\.\\nok${LINE_END}`, 'gu')

/** Tests whose "ok" stands on a line of its own, behind one of three messages that broke into their line. */
function interruptedTests(log: string): string[] {
  const names = testsBeforeInstalled(log)
  for (const pattern of [SERVER_ERROR, SYSTEM_CHECK]) {
    for (const match of log.matchAll(pattern)) names.push(match[1] ?? '')
  }
  return names
}

/** The message runs over many lines; its end is looked for once, so that a log full of beginnings costs no squared time. */
function testsBeforeInstalled(log: string): string[] {
  const names: string[] = []
  let from = 0
  for (;;) {
    INSTALLED.lastIndex = from
    const match = INSTALLED.exec(log)
    if (match === null) return names
    INSTALLED_END.lastIndex = INSTALLED.lastIndex
    if (!INSTALLED_END.test(log)) return names
    names.push(match[1] ?? '')
    from = INSTALLED_END.lastIndex
  }
}
