import { pythonItem, pythonSplit } from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'

/**
 * Summary lines of pytest as the official parsers read them, faults included: the status is the first word, known or not, and ids end
 * at the first whitespace. These rules made the required ids of the data sets, so a better parser would agree less often.
 */
export interface SummaryRules {
  /** A line counts if it starts with one of these; no space needs to follow. */
  words: readonly string[]
  /** Whether to ignore `SKIPPED [3] file:line: reason`, which is a count of tests. */
  dropsSkipCounts: boolean
}

const FIVE_WORDS = ['FAILED', 'PASSED', 'SKIPPED', 'ERROR', 'XFAIL'] as const

/** swebench 4.x and SWE-rebench's fork of it. */
export const RULES_4: SummaryRules = { words: FIVE_WORDS, dropsSkipCounts: false }
export const RULES_5: SummaryRules = { words: FIVE_WORDS, dropsSkipCounts: true }
/** SWE-rebench-V2 does not know XFAIL. */
export const RULES_V2: SummaryRules = { words: ['PASSED', 'FAILED', 'SKIPPED', 'ERROR'], dropsSkipCounts: false }

export function pytestParser(rules: SummaryRules): LogParser {
  return (log) => readSummary(log, rules, (id) => id)
}

/** For suites with paths as parameters: `[/a/b/c]` becomes `[/c]`. */
export function pytestOptionsParser(rules: SummaryRules): LogParser {
  return (log) => readSummary(log, rules, shortenPathParameter)
}

/** For parameters that print differently in different versions of matplotlib. */
export function matplotlibParser(rules: SummaryRules): LogParser {
  const parse = pytestParser(rules)
  return (log) => parse(log.replaceAll('MouseButton.LEFT', '1').replaceAll('MouseButton.RIGHT', '3'))
}

/** Removes colours and control characters; also reads lines that end with the status word. */
export function pytestV2Parser(rules: SummaryRules): LogParser {
  return (log) => readCleanLines(log, rules, { readPrefixed: readTwoWords, readSuffixed: readTwoWordsReversed })
}

/** Like `pytestV2Parser`, but ids keep their spaces; as upstream has it, the reason of an XFAIL or ERROR stays in the id. */
export const parsePytestV2Of5: LogParser = (log) =>
  readCleanLines(log, RULES_5, { readPrefixed: readWholeId, readSuffixed: readWholeIdReversed })

/** Like `pytestV2Parser`, but a line of one word raises in SWE-rebench-V2. */
export const parsePytestV2OfV2: LogParser = (log) =>
  readCleanLines(log, RULES_V2, {
    readPrefixed: (line, statuses) => {
      const words = pythonSplit(withoutDashes(line))
      statuses.set(pythonItem(words, 1), pythonItem(words, 0))
    },
    readSuffixed: (line, statuses) => {
      const words = pythonSplit(line)
      statuses.set(pythonItem(words, 0), pythonItem(words, 1))
    },
  })

const COLOUR = /\[\p{Nd}+m/gu
// oxlint-disable-next-line no-control-regex -- the characters that the official parser deletes
const CONTROL_CHARACTERS = /[\u0001-\u001F]/g

/** What the official parsers delete before they read a line. */
export function withoutColours(line: string): string {
  return line.replaceAll(COLOUR, '').replaceAll(CONTROL_CHARACTERS, '')
}

type LineReader = (line: string, statuses: StatusMap, rules: SummaryRules) => void

function readCleanLines(
  log: string,
  rules: SummaryRules,
  { readPrefixed, readSuffixed }: { readPrefixed: LineReader; readSuffixed: LineReader },
): StatusMap {
  const statuses: StatusMap = new Map()
  for (const raw of log.split('\n')) {
    const line = withoutColours(raw)
    if (startsWithStatus(line, rules)) readPrefixed(line, statuses, rules)
    else if (rules.words.some((word) => line.endsWith(word))) readSuffixed(line, statuses, rules)
  }
  return statuses
}

function readSummary(log: string, rules: SummaryRules, normalise: (id: string) => string): StatusMap {
  const statuses: StatusMap = new Map()
  for (const line of log.split('\n')) {
    if (!startsWithStatus(line, rules)) continue
    const [status, id] = pythonSplit(withoutDashes(line))
    if (status === undefined || id === undefined || isSkipCount(status, id, rules)) continue
    statuses.set(normalise(id), status)
  }
  return statuses
}

function readTwoWords(line: string, statuses: StatusMap): void {
  const [status, id] = pythonSplit(withoutDashes(line))
  if (status !== undefined && id !== undefined) statuses.set(id, status)
}

function readTwoWordsReversed(line: string, statuses: StatusMap): void {
  const [id, status] = pythonSplit(line)
  if (status !== undefined && id !== undefined) statuses.set(id, status)
}

function readWholeId(line: string, statuses: StatusMap, rules: SummaryRules): void {
  const dash = line.startsWith('FAILED') ? line.indexOf(' - ') : -1
  const [status, first, ...rest] = pythonSplit(dash < 0 ? line : line.slice(0, dash))
  if (status === undefined || first === undefined || isSkipCount(status, first, rules)) return
  statuses.set([first, ...rest].join(' '), status)
}

function readWholeIdReversed(line: string, statuses: StatusMap): void {
  const words = pythonSplit(line)
  const status = words.pop()
  if (status !== undefined && words.length > 0) statuses.set(words.join(' '), status)
}

/** A prefix test: `FAILED_X` counts too. */
function startsWithStatus(line: string, { words }: SummaryRules): boolean {
  return words.some((word) => line.startsWith(word))
}

function withoutDashes(line: string): string {
  return line.startsWith('FAILED') ? line.replaceAll(' - ', ' ') : line
}

const COUNT = /^\[\p{Nd}+\]$/u

function isSkipCount(status: string, id: string, { dropsSkipCounts }: SummaryRules): boolean {
  return dropsSkipCounts && status === 'SKIPPED' && COUNT.test(id)
}

/** From the first `[` to the last `]`; as in upstream's pattern, the text after it is lost. */
function shortenPathParameter(id: string): string {
  const open = id.indexOf('[')
  const close = id.lastIndexOf(']')
  if (open < 0 || close < open) return id
  const parameter = id.slice(open + 1, close)
  const isPath = parameter.startsWith('/') && !parameter.startsWith('//') && !parameter.includes('*')
  const shown = isPath ? `/${parameter.slice(parameter.lastIndexOf('/') + 1)}` : parameter
  return `${id.slice(0, open)}[${shown}]`
}
