import { isObject } from '../../domain/shapes.ts'
/** Test runners of Dart, as SWE-rebench-V2 parses their logs. */
import { pythonPattern } from './python-pattern.ts'
import { PythonError, pythonInteger, pythonSplitLines, pythonStrip } from './python-text.ts'
import { setDefault, type LogParser, type StatusMap } from './status-map.ts'

type Event = Readonly<Record<string, unknown>>

const RESULTS: Record<string, string> = { success: 'PASSED', failure: 'FAILED', error: 'ERROR' }

/** The JSON protocol: the start event maps a test's id to its name, the done event has its result. */
export const parseDart: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const names = new Map<string, string>()
  for (const event of pythonSplitLines(log).flatMap((line) => eventsIn(pythonStrip(line)))) {
    if (event['type'] === 'testStart') readStart(event, names)
    else if (event['type'] === 'testDone') readDone(event, names, statuses)
  }
  return statuses
}

function readStart({ test }: Event, names: Map<string, string>): void {
  if (!isObject(test)) return
  const { id, name } = test
  if (isNone(id) || !isTrue(name)) return
  if (typeof name !== 'string') throw new PythonError('AttributeError', "the name of a test has no 'startswith'")
  if (!name.startsWith('loading ')) names.set(keyOf(id), name)
}

function readDone(event: Event, names: ReadonlyMap<string, string>, statuses: StatusMap): void {
  const { testID: id, result, hidden, skipped } = event
  if (isNone(id) || isTrue(hidden)) return
  const name = names.get(keyOf(id))
  const known = typeof result === 'string' && Object.hasOwn(RESULTS, result) ? RESULTS[result] : undefined
  const status = known ?? (isTrue(skipped) ? 'SKIPPED' : undefined)
  if (name !== undefined && status !== undefined) statuses.set(name, status)
}

/** The objects of one line, which may be an object or a list. */
function eventsIn(line: string): Event[] {
  refuseLongInteger(line)
  // Parsing a very long line that is no JSON costs far more than checking its last character.
  const mayBeJson = (line.startsWith('{') && line.endsWith('}')) || (line.startsWith('[') && line.endsWith(']'))
  const value = mayBeJson ? parseJson(line) : null
  return (Array.isArray(value) ? value : [value]).filter(isObject)
}

const JSON_PART = /"[^"\\]*(?:\\.[^"\\]*)*"?|[[\]{}]|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/g
/** Only integers have this limit; a fraction or an exponent makes a float. */
const LONG_INTEGER = /^-?[0-9]{4301,}$/

/**
 * Python converts an integer as soon as it reads it. One that is too long raises an error that the harness does not catch, even if
 * the rest of the line is not JSON or the key is repeated.
 */
function refuseLongInteger(line: string): void {
  // Matches at the start of a run only; from every digit the scan would take quadratic time.
  if (!/(?<![0-9])[0-9]{4301}/.test(line)) return
  const open: string[] = []
  for (const { 0: part, index } of line.matchAll(JSON_PART)) {
    if (part === '{' || part === '[') open.push(part === '{' ? '}' : ']')
    else if (part === '}' || part === ']') open.pop()
    else if (LONG_INTEGER.test(part)) {
      // The line up to here is valid JSON if it parses once its brackets are closed.
      const sofar = line.slice(0, index + part.length) + open.toReversed().join('')
      if (isJson(sofar)) wholeNumber(part)
      return
    }
  }
}

function isJson(line: string): boolean {
  try {
    JSON.parse(withExtraNumbers(line))
    return true
  } catch {
    return false
  }
}

const LONG_NUMBER = /\d{16}/
/** Words that Python's JSON accepts beyond the standard, outside of strings, and exponents that could be confused with their
 *  replacements. */
const EXTRA_WORD = /"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|-?Infinity|NaN|(?<=[0-9])E/g
const NOT_A_NUMBER = '1E999'
/** Spaces keep a replacement apart from adjacent digits and signs. */
const EXTRA_NUMBERS: Record<string, string> = {
  NaN: ` ${NOT_A_NUMBER} `,
  Infinity: ' 1e999 ',
  '-Infinity': ' -1e999 ',
  E: 'e',
}

function withExtraNumbers(line: string): string {
  return /NaN|Infinity/.test(line) ? line.replaceAll(EXTRA_WORD, (part) => EXTRA_NUMBERS[part] ?? part) : line
}

function parseJson(line: string): unknown {
  const text = withExtraNumbers(line)
  try {
    return text !== line || LONG_NUMBER.test(text) ? JSON.parse(text, withPythonNumbers) : JSON.parse(text)
  } catch {
    return null
  }
}

/** Keeps numbers distinct that a JavaScript number would round to the same value. */
function withPythonNumbers(_: string, value: unknown, { source = '' }: { source?: string } = {}): unknown {
  if (source === NOT_A_NUMBER) return Number.NaN
  return /^-?\d+$/.test(source) ? wholeNumber(source) : value
}

function wholeNumber(source: string): bigint {
  const size = pythonInteger(source.replace('-', ''))
  return source.startsWith('-') ? -size : size
}

function isNone(value: unknown): value is null | undefined {
  return value === null || value === undefined
}

/** Python's truth value: false for empty objects, zero and null. */
function isTrue(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length > 0
  return Number.isNaN(value) || Boolean(value)
}

/** Keys are equal if Python's are: numbers by value, `true` as 1. */
function keyOf(id: unknown): string {
  if (typeof id === 'string') return `text ${id}`
  if (typeof id === 'object') throw new PythonError('TypeError', 'the number of a test is a list or an object')
  const number = id as number | bigint | boolean
  return typeof number === 'number' && !Number.isInteger(number) ? String(number) : String(BigInt(number))
}

const PACKAGE_LINE = pythonPattern(String.raw`^\[\w+\]:\s+\d{2}:\d{2}\s+\+(\d+):\s+(/[^:]+\.dart):\s+(.+)$`)

/** `[package]: 00:01 +3: /path/x_test.dart: name`: a test that is printed twice started and ended. */
export const parseDartV2: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    if (line.toLowerCase().includes('loading')) continue
    const [, counter, path = '', test = ''] = PACKAGE_LINE.exec(line) ?? []
    if (counter === undefined) continue
    pythonInteger(counter)
    const name = `${path}: ${test}`
    statuses.set(name, statuses.has(name) ? 'PASSED' : 'ERROR')
  }
  return statuses
}

const LOADING_ERROR = pythonPattern(String.raw`^\d+:\d+\s+\+\d+\s+-\d+:\s+loading\s+(/[^:]+\.dart)\s+\[E\]$`)
const TEST_LINE = pythonPattern(String.raw`^\d+:\d+\s+\+\d+(?:\s+-\d+)?:\s+(/[^:]+\.dart):\s+(.+)$`)
const ERROR_MARK = pythonPattern(String.raw`(?<!\s)\s+\[E\]$`)

/** `00:01 +3 -1: /path/x_test.dart: name [E]` */
export const parseDartV3: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const loading = LOADING_ERROR.exec(line)?.[1]
    if (loading !== undefined) {
      statuses.set(loading, 'ERROR')
      continue
    }
    const [, path, written = ''] = TEST_LINE.exec(line) ?? []
    if (path === undefined) continue
    const name = `${path}: ${written.replace(ERROR_MARK, '')}`
    if (line.includes('[E]')) statuses.set(name, 'FAILED')
    else setDefault(statuses, name, 'PASSED')
  }
  return statuses
}
