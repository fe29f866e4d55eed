/** Shared by the parsers that read line by line. */
import { pythonPattern } from './python-pattern.ts'
import { PythonError, pythonSplitLines, pythonStrip, spacesStart } from './python-text.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'

/** One form of line. The first rule that finds a name in a line decides; `keeps`: an earlier result of that name stays. */
export interface LineRule {
  read(line: string): string | null
  status: string
  keeps?: boolean
}

/** Applies the rules to each line after stripping its ends (or, with `cut`, to the result of that function). */
export function rulesParser(rules: readonly LineRule[], cut: (line: string) => string = pythonStrip): LogParser {
  return (log) => {
    const statuses: StatusMap = new Map()
    for (const raw of pythonSplitLines(log)) readByRules(cut(raw), rules, statuses)
    return statuses
  }
}

function readByRules(line: string, rules: readonly LineRule[], statuses: StatusMap): void {
  if (line === '') return
  for (const { read, status, keeps } of rules) {
    const name = read(line)
    if (name === null) continue
    if (keeps === true) setDefault(statuses, name, status)
    else statuses.set(name, status)
    return
  }
}

/** The first group of a pattern in Python's notation. */
export function group(source: string, options: { ignoresCase?: boolean } = {}): (line: string) => string | null {
  const pattern = pythonPattern(source, options)
  return (line) => pattern.exec(line)?.[1] ?? null
}

/** A pattern for a whole line, with the groups of its status word and of the test's name. */
interface WordPattern {
  pattern: RegExp
  word: number
  name: number
  /** Words that are not listed are no results. */
  statuses: Readonly<Record<string, string>>
}

/** Applies one pattern to each stripped line. */
export function wordParser({ pattern, word, name, statuses }: WordPattern): LogParser {
  return (log) => {
    const found: StatusMap = new Map()
    for (const raw of log.split('\n')) {
      const match: readonly string[] = pattern.exec(pythonStrip(raw)) ?? []
      const status = statuses[match[word] ?? '']
      if (status !== undefined) found.set(match[name] ?? '', status)
    }
    return found
  }
}

/** `^BEFORE\s+(.*?)\s+AFTER` in the official parsers. */
export interface FieldInput {
  before: string
  after: string
  /** The least number of characters in a name. */
  least?: 0 | 1
  /** The least number of whitespace characters after the name. */
  blanks?: 1 | 2
  ignoresCase?: boolean
}

export interface Field {
  name: string
  /** The match of `\s+AFTER`. */
  match: RegExpExecArray
}

/**
 * Reads the shortest name between two parts of a line in linear time. If only whitespace lies between the parts, it is divided as
 * backtracking would divide it: the name is empty, or one whitespace character if `least` is 1. `accepts` may refuse a match of the
 * second part.
 */
export function field({
  before,
  after,
  least = 0,
  blanks = 1,
  ignoresCase = false,
}: FieldInput): (line: string, accepts?: (match: RegExpExecArray) => boolean) => Field | null {
  const prefix = pythonPattern(`^${before}\\s+`, { ignoresCase })
  const next = pythonPattern(`(?<!\\s)\\s{${blanks},}${after}`, { ignoresCase, flags: 'g' })
  const here = pythonPattern(`\\s{${blanks},}${after}`, { ignoresCase, flags: 'y' })
  return (line, accepts = () => true) => {
    const start = prefix.exec(line)?.[0].length
    if (start === undefined) return null
    next.lastIndex = start
    for (let match = next.exec(line); match !== null; match = next.exec(line)) {
      if (accepts(match)) return { name: line.slice(start, match.index), match }
    }
    const at = start - blanks
    if (at - least <= spacesStart(line, start)) return null
    here.lastIndex = at
    const match = here.exec(line)
    return match !== null && accepts(match) ? { name: line.slice(at - least, at), match } : null
  }
}

/** The name of a `field`. */
export function fieldName(input: FieldInput): (line: string) => string | null {
  const read = field(input)
  return (line) => read(line)?.name ?? null
}

/** Whether the line's last character closes a bracket that opens before this position, with content other than `)`. */
export function closesLine(line: string): (inside: number) => boolean {
  const last = line.length - 1
  const before = line.lastIndexOf(')', last - 1)
  return (inside) => line.endsWith(')') && inside > before && inside < last
}

const OPEN_BRACKET = pythonPattern(String.raw`(?<!\s)\s+\(`, { flags: 'g' })

/** Where the whitespace before a last `(…)` begins, at or after `from`; -1 if there is none. */
export function lastBracket(line: string, from = 0): number {
  const closes = closesLine(line)
  OPEN_BRACKET.lastIndex = Math.max(from, line.lastIndexOf(')', line.length - 2) + 1)
  const match = OPEN_BRACKET.exec(line)
  return match !== null && closes(OPEN_BRACKET.lastIndex) ? match.index : -1
}

/**
 * Limits the total length of the names to this factor times the log's length, plus a million characters. Real names repeat their
 * suites a few times; a suite of a megabyte before each of a million tests would exhaust memory.
 */
const MAX_NAME_GROWTH = 64
const FREE_NAME_CHARACTERS = 1 << 20

/** Joins suites and tests to the names of one log. @throws PythonError if the names take far more memory than the log */
export function createNameJoiner(log: string, separator: string): (parts: readonly string[]) => string {
  let left = FREE_NAME_CHARACTERS + MAX_NAME_GROWTH * log.length
  return (parts) => {
    const name = parts.join(separator)
    left -= name.length
    if (left < 0) throw new PythonError('MemoryError', 'the names of the tests take more memory than a log may need')
    return name
  }
}
