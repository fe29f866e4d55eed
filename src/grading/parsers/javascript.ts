/** Test runners of JavaScript, as SWE-rebench-V2 parses their logs. */
import { DIGIT, pythonSplitLines, pythonStrip, pythonStripEnd, PythonError, SPACE } from './python-text.ts'
import { withoutBareDuration } from './durations.ts'
import { createNameJoiner, group, lastBracket, rulesParser, wordParser } from './line-reader.ts'
import { pythonPattern } from './python-pattern.ts'
import { type LogParser, setDefault, type StatusMap } from './status-map.ts'
import { withoutEscapes } from './terminal-text.ts'

/** `--verbose`; a duration in brackets is not part of the name. */
export const parseJest = wordParser({
  pattern: pythonPattern(String.raw`^([✓✕○])\s(.+?)(?:\s\(\d+\s*m?s\))?$`),
  word: 1,
  name: 2,
  statuses: { '✓': 'PASSED', '✕': 'FAILED', '○': 'SKIPPED' },
})

/** `--reporter=verbose`; a number at the end of a name is read as a duration. */
export const parseVitest = wordParser({
  pattern: pythonPattern(String.raw`^([✓×↓])\s(.+?)(?:\s(?:\d+\s*m?s?|\[skipped\]))?$`),
  word: 1,
  name: 2,
  statuses: { '✓': 'PASSED', '×': 'FAILED', '↓': 'SKIPPED' },
})

export const parseJestJson = wordParser({
  pattern: pythonPattern(String.raw`^\[(PASSED|FAILED)\]\s(.+)$`),
  word: 1,
  name: 2,
  statuses: { PASSED: 'PASSED', FAILED: 'FAILED' },
})

export const parseTap = wordParser({
  pattern: pythonPattern(String.raw`^(ok|not ok) (?:\d+) (.+)$`),
  word: 1,
  name: 2,
  statuses: { ok: 'PASSED', 'not ok': 'FAILED' },
})

const JEST_COMMAND = ' ./node_modules/.bin/jest '
const CALYPSO_TIME = pythonPattern(String.raw`\(\d+ms\)`)
const CALYPSO_TIME_AT_THE_END = pythonPattern(String.raw`^\(\d+ms\)$`)
const CALYPSO_START = pythonPattern(String.raw`^\s+[✓✕]\s`)

/** Jest's tree after each traced `jest` command, up to its summary. As upstream has it, a result without indentation raises. */
export const parseCalypso: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(log, ' - ')
  const suites: { name: string; indent: number }[] = []
  for (const chunk of log.split(JEST_COMMAND).slice(1)) {
    for (const line of chunk.split('\n')) {
      if (line.startsWith('Test Suites') || line.startsWith('  ● ')) break
      const text = pythonStrip(line)
      const indent = indentOf(line)
      if (text.startsWith('✓') || text.startsWith('✕')) {
        const name = join([suites.map((suite) => suite.name).join(' - '), calypsoTest(line)])
        statuses.set(pythonStrip(name), text.startsWith('✓') ? 'PASSED' : 'FAILED')
      } else if (indent > 0) {
        while ((suites.at(-1)?.indent ?? 0) >= indent) suites.pop()
        suites.push({ name: text, indent })
      }
    }
  }
  return statuses
}

function calypsoTest(line: string): string {
  const start = CALYPSO_START.exec(line)?.[0].length
  const hasTime = CALYPSO_TIME.test(line)
  const open = hasTime ? line.lastIndexOf('(') : line.length
  if (start === undefined || (hasTime && !CALYPSO_TIME_AT_THE_END.test(line.slice(open)))) {
    throw new PythonError('ValueError', "the pattern of a result doesn't match its line")
  }
  return line.slice(start, open)
}

/** The width of the leading whitespace. */
function indentOf(line: string): number {
  return INDENT.exec(line)?.[0].length ?? 0
}

const INDENT = pythonPattern(String.raw`^\s*`)

const BLANK = String.raw`[\t\v\f\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]`
const BROWSER = new RegExp(`Chrome${SPACE}[${DIGIT}.]+${BLANK}\\(`, 'gu')
const BROWSER_END = new RegExp(`\\)${BLANK}`, 'gu')

/** `Chrome 1.2 (Linux) name FAILED`: failures only; the name lies between the first `) ` and the word. */
export const parseChartJs: LogParser = (log) => {
  const text = withoutEscapes(log)
  const statuses: StatusMap = new Map()
  let [lineEnd, close] = [-1, -1]
  BROWSER.lastIndex = 0
  for (let match = BROWSER.exec(text); match !== null; match = BROWSER.exec(text)) {
    const inside = match.index + match[0].length
    if (lineEnd < inside) {
      lineEnd = text.indexOf('\n', inside)
      if (lineEnd < 0) lineEnd = text.length
    }
    if (close < inside + 1) {
      BROWSER_END.lastIndex = inside + 1
      close = BROWSER_END.exec(text)?.index ?? text.length
    }
    const [start, end] = [close + 2, lineEnd - 'FAILED'.length]
    if (start <= end && text.startsWith('FAILED', end)) {
      statuses.set(text.slice(start, end), 'FAILED')
      BROWSER.lastIndex = lineEnd
    } else BROWSER.lastIndex = match.index + 1
  }
  return statuses
}

const NUMBERED = pythonPattern(String.raw`^\d+\)\s(.*)`)

/** `1) name`: failures only. */
export const parseMarked: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const line of log.split('\n')) {
    const name = NUMBERED.exec(line)?.[1]
    if (name !== undefined) statuses.set(pythonStrip(name), 'FAILED')
  }
  return statuses
}

const PDF = pythonPattern(String.raw`^(PASS|FAIL)\s(.*?)(?:\s\([\d.]+\s*(?:ms|s)\))?$`)

/** `PASS file (1.2 s)` */
export const parseReactPdf: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const line of log.split('\n')) {
    const match = PDF.exec(line)
    if (match !== null) statuses.set(pythonStripEnd(match[2] ?? ''), match[1] === 'PASS' ? 'PASSED' : 'FAILED')
  }
  return statuses
}

const KARMA = pythonPattern(String.raw`^(\s*)([✔✖])?\s(.*)$`)

/** The tree that Karma prints between the start of the browser and the summary. */
export const parseKarma: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(log, ' > ')
  const suites: string[] = []
  let [indent, hasStarted] = [-1, false]
  for (const line of log.split('\n')) {
    if (line.startsWith('SUMMARY:')) break
    if (line.includes('Starting browser')) {
      hasStarted = true
      continue
    }
    const match = hasStarted ? KARMA.exec(line) : null
    if (match === null) continue
    const [, blanks = '', mark, name = ''] = match
    if (mark !== undefined) statuses.set(join([...suites, name]), mark === '✔' ? 'PASSED' : 'FAILED')
    else if (blanks.length > indent && blanks !== '') suites.push(name)
    else if (blanks.length < indent && blanks !== '' && suites.pop() === undefined) {
      throw new PythonError('IndexError', 'pop from empty list')
    }
    if (mark === undefined && blanks !== '') indent = blanks.length
  }
  return statuses
}

const FAILURE = pythonPattern(String.raw`^\s*\d+\)`)
const MAX_FAILURE_CHARACTERS = 1000

/**
 * `1) suite`, `test:` over several lines, each indented deeper, up to the first colon within a thousand characters: failures only.
 * Blocks of JSON and XML that the tests print are removed first.
 */
export const parseP5js: LogParser = (log) => {
  const text = withoutXmlBlocks(withoutJsonBlocks(withoutEscapes(log)))
  const statuses: StatusMap = new Map()
  let [lineStart, colon, readTo] = [0, -1, 0]
  for (const line of text.split('\n')) {
    const close = lineStart + (FAILURE.exec(line)?.[0].length ?? 0)
    if (close > lineStart && lineStart >= readTo) {
      if (colon < close) colon = text.indexOf(':', close)
      if (colon < 0) break
      const written = colon - close > 2 * MAX_FAILURE_CHARACTERS ? null : text.slice(close, colon)
      if (written !== null && Array.from(written).length <= MAX_FAILURE_CHARACTERS) {
        readTo = colon + 1
        const parts = written.split('\n')
        if (parts.every((part, at) => indentOf(part) > indentOf(parts[at - 1] ?? ''))) {
          statuses.set(parts.map(pythonStrip).join(':'), 'FAILED')
        }
      }
    }
    lineStart += line.length + 1
  }
  return statuses
}

function withoutJsonBlocks(text: string): string {
  let [isInObject, isInList] = [false, false]
  const kept = text.split('\n').filter((raw) => {
    const line = pythonStripEnd(raw)
    if (line.endsWith('{')) isInObject = true
    else if (line.endsWith('[')) isInList = true
    else if (line === '}' && isInObject) isInObject = false
    else if (line === ']' && isInList) isInList = false
    else {
      const isWhole = (line.startsWith('{') && line.endsWith('}')) || (line.startsWith('[') && line.endsWith(']'))
      return !isInObject && !isInList && !isWhole
    }
    return false
  })
  return kept.join('\n')
}

const TAG = pythonPattern(String.raw`<(/?)(\w+)>`, { flags: 'g' })
const TAG_BEGINS = pythonPattern(String.raw`</?(\w*)$`)
const TAG_ENDS = pythonPattern(String.raw`/?\w*>`, { flags: 'y' })
const WHOLE_TAG = pythonPattern(String.raw`^</?\w+>$`)
/** Removing a block may join the halves of a new tag; the text is then read again from its start, at most this often. */
const MAX_JOINED_TAGS = 50

/**
 * Upstream removes `<a>…</a>`, from the first tag that is closed at all to its next end tag, puts back the tags of that name inside
 * it, and repeats until none is left. The result is the same as removing up to the point where opened and closed tags balance or, if
 * the text ends first, up to the last end tag of that name, and keeping the tags left open.
 */
function withoutXmlBlocks(text: string): string {
  let [rest, joins] = [text, 0]
  for (;;) {
    const { kept, isJoined } = withoutFirstXmlBlocks(rest)
    if (!isJoined) return kept
    joins += 1
    if (joins > MAX_JOINED_TAGS)
      throw new PythonError('MemoryError', 'the tags in the log take more time than it may cost')
    rest = kept
  }
}

/** Stops at the first place where a new tag is joined. */
function withoutFirstXmlBlocks(text: string): { kept: string; isJoined: boolean } {
  const tags = [...text.matchAll(TAG)].map(({ index, 0: { length }, 1: slash, 2: name = '' }) => ({
    start: index,
    end: index + length,
    isEnd: slash === '/',
    name,
  }))
  const lastEnds = new Map<string, number>()
  for (const { isEnd, name, start } of tags) if (isEnd) lastEnds.set(name, start)
  const parts: string[] = []
  let [from, half] = [0, '']
  for (let at = 0; at < tags.length; at += 1) {
    const first = tags[at]
    if (first === undefined || first.isEnd) continue
    const { name, start } = first
    const lastEnd = lastEnds.get(name) ?? -1
    if (lastEnd < start) continue
    let [open, end] = [1, start]
    while (open > 0 && (tags[at + 1]?.start ?? text.length) <= lastEnd) {
      at += 1
      const tag = tags[at]
      if (tag === undefined || tag.name !== name) continue
      open += tag.isEnd ? -1 : 1
      end = tag.end
    }
    parts.push(text.slice(from, start), `<${name}>`.repeat(open))
    half = open > 0 ? '' : halfOfTag(half + text.slice(from, start))
    from = end
    TAG_ENDS.lastIndex = end
    if (half !== '' && WHOLE_TAG.test(half + (TAG_ENDS.exec(text)?.[0] ?? ''))) {
      return { kept: `${parts.join('')}${text.slice(from)}`, isJoined: true }
    }
  }
  return { kept: `${parts.join('')}${text.slice(from)}`, isJoined: false }
}

/** The unfinished tag at the end of a text, with its letters reduced to one, so that a long name is read once. */
function halfOfTag(text: string): string {
  const [half = '', letters = ''] = TAG_BEGINS.exec(text) ?? []
  return letters === '' ? half : `${half.slice(0, -letters.length)}x`
}

const readTiming = (read: (line: string) => string | null): ((line: string) => string | null) => {
  return (line) => {
    const name = read(line)
    return name === null ? null : withoutBareDuration(name)
  }
}

const PASSED = { read: readTiming(group(String.raw`^✔\s+(.*)$`)), status: 'PASSED', keeps: true }
const SKIPPED = { read: readTiming(group(String.raw`^-\s+(.*)$`)), status: 'SKIPPED' }

const readNumbered = group(String.raw`^\d+\)\s+(.*)$`)

/** Mocha's report with failures as `1) name:` or `[W] 1) name`. */
export const parseJs = withoutNameless(
  rulesParser([
    SKIPPED,
    { read: readTiming((line) => (line.endsWith(':') ? readNumbered(line.slice(0, -1)) : null)), status: 'FAILED' },
    { read: readTiming(group(String.raw`^\[W\]\s*\d+\)\s+(.*)$`)), status: 'FAILED' },
    PASSED,
  ]),
)

/** Mocha's report with failures as `1) name`. */
export const parseJs2 = withoutNameless(
  rulesParser([SKIPPED, { read: readTiming(readNumbered), status: 'FAILED' }, PASSED]),
)

/** A line with only a duration is matched, but gives no result. */
function withoutNameless(parse: LogParser): LogParser {
  return (log) => {
    const statuses = parse(log)
    statuses.delete('')
    return statuses
  }
}

const TAP_NESTED = pythonPattern(String.raw`^(not ok|ok)\s+\d+\s+-\s+(.*)$`)
const COMMENT = pythonPattern(String.raw`(?<!\s)\s+#`)

/** TAP with blocks: `ok 1 - suite {`, its tests, `}`. A later pass does not replace an earlier result. */
export const parseJs3: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  const join = createNameJoiner(log, ' :: ')
  const suites: string[] = []
  for (const raw of pythonSplitLines(log)) {
    const whole = pythonStrip(raw)
    if (/^\}+$/.test(whole)) {
      suites.splice(Math.max(0, suites.length - whole.length))
      continue
    }
    const isOpening = whole.endsWith('{')
    const match = TAP_NESTED.exec(isOpening ? pythonStripEnd(whole.slice(0, -1)) : whole)
    if (match === null) continue
    const written = match[2] ?? ''
    const shown = written.slice(0, COMMENT.exec(written)?.index)
    const name = withoutBareDuration(pythonStrip(shown))
    if (name === '') continue
    const key = join([...suites, name])
    const lower = shown.toLowerCase()
    if (lower.includes('# skip') || lower.includes('# todo')) statuses.set(key, 'SKIPPED')
    else if (match[1] === 'ok') setDefault(statuses, key, 'PASSED')
    else statuses.set(key, 'FAILED')
    if (isOpening) suites.push(name)
  }
  return statuses
}

const MARKS: Record<string, string> = Object.fromEntries([
  ...Array.from('✔✓', (mark) => [mark, 'PASSED']),
  ...Array.from('✘✖×', (mark) => [mark, 'FAILED']),
  ...Array.from('○◌◦⚪', (mark) => [mark, 'SKIPPED']),
])
const SKIP_MARKERS = ['(skipped)', '[skip]', '[skipped]', '[pending]', '[todo]'] as const

/** A mark before each name, or a bracketed word that says that the test was skipped. */
export const parseJs4: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStrip(raw)
    const status = MARKS[line.charAt(0)]
    if (status !== undefined) {
      const name = withoutBareDuration(withoutTag(pythonStrip(line.slice(1))))
      if (name === '') continue
      if (status === 'PASSED') setDefault(statuses, name, status)
      else statuses.set(name, status)
      continue
    }
    const lower = line.toLowerCase()
    if (!SKIP_MARKERS.some((marker) => lower.includes(marker))) continue
    const name = withoutBareDuration(
      pythonStrip(SKIP_MARKERS.reduce((rest, marker) => rest.replaceAll(marker, ''), line)),
    )
    if (name !== '') statuses.set(name, 'SKIPPED')
  }
  return statuses
}

/** `[project]: name` is `name`. */
function withoutTag(text: string): string {
  const end = text.startsWith('[') ? text.indexOf(']:') : -1
  const rest = end < 0 ? text : pythonStrip(text.slice(end + 2))
  return rest.startsWith(':') ? pythonStrip(rest.slice(1)) : rest
}

const NPX_PASSED = pythonPattern(String.raw`^\s*✔\s+(.+)$`)
const NPX_TIME = pythonPattern(String.raw`(?<!\s)\s+\(\d+(?:ms)?\)$`)
const NPX_FAILED = pythonPattern(String.raw`^\s*\d+\)\s+(.+)$`)

/** `✔ name (12ms)` and `1) name (module)` */
export const parseNpx: LogParser = (log) => {
  const statuses: StatusMap = new Map()
  for (const raw of pythonSplitLines(log)) {
    const line = pythonStripEnd(raw)
    const passed = NPX_PASSED.exec(line)?.[1]
    if (passed !== undefined) statuses.set(pythonStrip(passed.replace(NPX_TIME, '')), 'PASSED')
    const failed = NPX_FAILED.exec(line)?.[1]
    if (failed === undefined) continue
    const bracket = lastBracket(failed)
    statuses.set(bracket < 0 ? failed : failed.slice(0, bracket), 'FAILED')
  }
  return statuses
}
