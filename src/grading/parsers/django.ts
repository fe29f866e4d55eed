import { ANY, LINE_END, LINE_START, pythonItem, pythonSplit, pythonStrip, SPACE } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

/** This test prints over two lines; only this sentence identifies it. */
const VERSION_TEST = '--version is equivalent to version'
/** This migration prints its output before the test's name. */
const MIGRATION = 'Applying sites.0002_alter_domain_unique...test_no_migrations'
const PASSED_ENDINGS = [' ... ok', ' ... OK', ' ...  OK'] as const

/**
 * Output of Django's own runner. As lenient as upstream: any line that starts with "ok" marks the last named test as passed, even
 * after a failure; expected failures and unexpected successes are not recorded.
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

/** The line without the migration's output, if a passed test follows it; the later rules read this form. */
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

/** Tests whose "ok" is on a separate line, because one of three messages interrupted theirs. */
function interruptedTests(log: string): string[] {
  const names = testsBeforeInstalled(log)
  for (const pattern of [SERVER_ERROR, SYSTEM_CHECK]) {
    for (const match of log.matchAll(pattern)) names.push(match[1] ?? '')
  }
  return names
}

/** The message spans many lines. Its end is searched once, so that a log full of beginnings does not take quadratic time. */
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
