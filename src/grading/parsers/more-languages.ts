/** Elixir, Lua, Julia, Swift and C#: one parser each, as SWE-rebench-V2 parses their logs. */
import { closesLine, field, fieldName, group, rulesParser } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import {
  isPythonDigit,
  pythonInteger,
  pythonSplit,
  pythonSplitLines,
  pythonStrip,
  pythonStripEnd,
} from './python-text.ts'
import type { LogParser, StatusMap } from './status-map.ts'
import { withoutColourCodes } from './terminal-text.ts'

const ELIXIR_TEST = String.raw`\*\s+test`
const readFailure = field({ before: String.raw`\d+\)\s+test`, after: String.raw`\(` })

/** ExUnit's trace: `* test name (1.2ms) [L#4]`, and the headings of failures. */
export const parseElixir = rulesParser([
  { read: fieldName({ before: ELIXIR_TEST, after: String.raw`\(skipped\)\s+\[L#\d+\]$` }), status: 'SKIPPED' },
  {
    read: (line) => {
      const closes = closesLine(line)
      return readFailure(line, ({ index, 0: { length } }) => closes(index + length))?.name ?? null
    },
    status: 'FAILED',
  },
  {
    read: fieldName({ before: ELIXIR_TEST, after: String.raw`\([0-9]+(?:\.[0-9]+)?ms\)\s+\[L#\d+\]$` }),
    status: 'PASSED',
    keeps: true,
  },
  { read: fieldName({ before: ELIXIR_TEST, after: String.raw`\[L#\d+\]$` }), status: 'PASSED', keeps: true },
])

/** plenary.nvim: `Success || name`; a failure replaces an earlier result. */
export const parseLua = rulesParser(
  [
    { read: group(String.raw`^(?:Fail|Failed)\s*\|\|\s*(.+)$`), status: 'FAILED' },
    {
      read: group(String.raw`^(?:Skip|Skipped)\s*\|\|\s*(.+)$`, { ignoresCase: true }),
      status: 'SKIPPED',
      keeps: true,
    },
    { read: group(String.raw`^Success\s*\|\|\s*(.+)$`), status: 'PASSED', keeps: true },
  ],
  (raw) => pythonStripEnd(withoutColourCodes(raw)),
)

const LEAD = pythonPattern(String.raw`^\s*`)
const BAR = pythonPattern(String.raw`(?<!\s)\s+\|`, { flags: 'g' })

/** Rows of the tables after `Test Summary:`; the number of columns determines their meaning. */
export const parseJulia: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  let columns: TableColumns | null = null
  for (const line of pythonSplitLines(log)) {
    if (line.includes('Test Summary:')) {
      const header = line.includes('| Pass') ? (line.split('|')[1] ?? '') : null
      if (header !== null) columns = { hasFail: header.includes('Fail'), hasError: header.includes('Error') }
      else columns ??= { hasFail: false, hasError: false }
    } else if (columns !== null) readRow(line, columns, statuses)
  }
  return statuses
}

interface TableColumns {
  hasFail: boolean
  hasError: boolean
}

function readRow(line: string, columns: TableColumns, statuses: StatusMap): void {
  const start = LEAD.exec(line)?.[0].length ?? 0
  BAR.lastIndex = start + 1
  const found = BAR.exec(line)
  // The pattern needs a character after the bar.
  const bar = found !== null && BAR.lastIndex < line.length ? found : null
  // In a row without a name, the space before the bar is the name.
  const isNameless = bar === null && start > 1 && line.startsWith('|', start)
  const cells = bar === null ? (isNameless ? start + 1 : line.length) : BAR.lastIndex
  const text = line.slice(cells)
  const numbers = pythonSplit(text).filter(isPythonDigit)
  if (numbers.length < 2) return
  statuses.set(bar === null ? '' : line.slice(start, bar.index), rowStatus(text, numbers, columns))
}

/** The first number is at least this far to the right if no test passed. */
const EMPTY_COLUMN = 10

function rowStatus(text: string, numbers: readonly string[], { hasFail, hasError }: TableColumns): string {
  const total = pythonInteger(numbers.at(-1) ?? '')
  const at = (index: number): bigint => pythonInteger(numbers[index] ?? '')
  if (numbers.length === 2) {
    const first = at(0)
    return (LEAD.exec(text)?.[0].length ?? 0) >= EMPTY_COLUMN || first !== total ? 'ERROR' : 'PASSED'
  }
  if (numbers.length === 3) return at(1) === 0n ? 'PASSED' : hasFail && !hasError ? 'FAILED' : 'ERROR'
  const [fails, errors] = [at(1), at(2)]
  return errors > 0n ? 'ERROR' : fails > 0n ? 'FAILED' : 'PASSED'
}

const swift = (word: string): ((line: string) => string | null) =>
  group(String.raw`^Test Case '([^']+)'\s+${word}\s+\([0-9.]+\s+seconds\)$`)

/** XCTest */
export const parseSwift = rulesParser([
  { read: swift('passed'), status: 'PASSED' },
  { read: swift('failed'), status: 'FAILED' },
])

/** `  Passed name [1 ms]`: the name ends at the first whitespace before a bracket, if a non-empty bracket ends the line. */
function dotnet(word: string): (line: string) => string | null {
  const read = field({ before: String.raw`\s+${word}`, after: String.raw`\[`, least: 1 })
  return (line) => {
    const last = line.endsWith(']') ? line.length - 1 : 0
    return read(line, ({ index, 0: { length } }) => index + length < last)?.name ?? null
  }
}

const readSkippedWithTime = dotnet('Skipped')
const readSkipped = group(String.raw`^\s+Skipped\s+(.+)$`)

/** xUnit.net and `dotnet test`. */
export const parseCsharp = rulesParser(
  [
    {
      read: fieldName({ before: String.raw`\[xUnit\.net\s+[\d:.]+\]`, after: String.raw`\[FAIL\]$`, least: 1 }),
      status: 'FAILED',
    },
    { read: dotnet('Failed'), status: 'FAILED' },
    { read: (line) => readSkippedWithTimeFirst(line), status: 'SKIPPED' },
    { read: dotnet('Passed'), status: 'PASSED', keeps: true },
  ],
  pythonStripEnd,
)

/** The time is optional, so a name of only whitespace before the bracket counts as not found. */
function readSkippedWithTimeFirst(line: string): string | null {
  const whole = readSkipped(line)
  const timed = whole === null ? null : readSkippedWithTime(line)
  return timed === null || pythonStrip(timed) === '' ? whole : timed
}
