import { pythonSplit } from './python-text.ts'

/** Test id → status word. A `Map`, because ids such as `__proto__` occur; the last line about an id wins. */
export type StatusMap = Map<string, string>

const STATUS_WORDS = ['FAILED', 'PASSED', 'SKIPPED', 'ERROR', 'XFAIL'] as const

/**
 * Summary lines of pytest as the official parser reads them, faults included: the status is the first word whatever it is,
 * ids end at the first blank. Required ids of the data sets were made by these rules, so a better parser agrees less.
 */
export function parsePytest(log: string): StatusMap {
  return parseLines(log, (id) => id)
}

/** As `parsePytest`, for suites whose parameters are paths: `[/a/b/c]` becomes `[/c]`. */
export function parsePytestOptions(log: string): StatusMap {
  return parseLines(log, shortenPathParameter)
}

/** As `parsePytest` without colours and control characters; also reads lines that end with the status word. */
export function parsePytestV2(log: string): StatusMap {
  const statuses: StatusMap = new Map()
  for (const raw of log.split('\n')) {
    const line = raw.replaceAll(/\[\p{Nd}+m/gu, '').replaceAll(CONTROL_CHARACTERS, '')
    if (startsWithStatus(line)) {
      readPrefixed(line, statuses, (id) => id)
      continue
    }
    if (!STATUS_WORDS.some((word) => line.endsWith(word))) continue
    const [id, status] = pythonSplit(line)
    if (id !== undefined && status !== undefined) statuses.set(id, status)
  }
  return statuses
}

// oxlint-disable-next-line no-control-regex -- the characters that the official parser deletes
const CONTROL_CHARACTERS = /[\u0001-\u001F]/g

function parseLines(log: string, normalise: (id: string) => string): StatusMap {
  const statuses: StatusMap = new Map()
  for (const line of log.split('\n')) if (startsWithStatus(line)) readPrefixed(line, statuses, normalise)
  return statuses
}

/** A prefix test, no blank needed: `FAILED_X` counts too. */
function startsWithStatus(line: string): boolean {
  return STATUS_WORDS.some((word) => line.startsWith(word))
}

function readPrefixed(line: string, statuses: StatusMap, normalise: (id: string) => string): void {
  const text = line.startsWith('FAILED') ? line.replaceAll(' - ', ' ') : line
  const [status, id] = pythonSplit(text)
  if (status !== undefined && id !== undefined) statuses.set(normalise(id), status)
}

/** From the first `[` to the last `]`; what follows is lost, as upstream's pattern has it. */
function shortenPathParameter(id: string): string {
  const open = id.indexOf('[')
  const close = id.lastIndexOf(']')
  if (open < 0 || close < open) return id
  const parameter = id.slice(open + 1, close)
  const isPath = parameter.startsWith('/') && !parameter.startsWith('//') && !parameter.includes('*')
  const shown = isPath ? `/${parameter.slice(parameter.lastIndexOf('/') + 1)}` : parameter
  return `${id.slice(0, open)}[${shown}]`
}
