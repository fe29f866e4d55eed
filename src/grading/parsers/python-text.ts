/**
 * Python's rules for text, where they differ from JavaScript's. The official parsers are Python, and the ids of the data
 * sets were cut by them. Classes are given as sources, for patterns with the flag `u`.
 */

/** White space: U+001C to U+001F and U+0085 count, U+FEFF does not. */
export const SPACE = String.raw`[\t-\r\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]`
export const NOT_SPACE = String.raw`[^\t-\r\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]`
/** `\d` is any decimal digit of Unicode, `\w` any letter, number or underscore. */
export const DIGIT = String.raw`\p{Nd}`
export const WORD = String.raw`[\p{L}\p{N}_]`
/** `\b` over `WORD`. */
export const WORD_EDGE = `(?:(?<=${WORD})(?!${WORD})|(?<!${WORD})(?=${WORD}))`
/** `.`: only U+000A ends a line, for JavaScript also U+000D, U+2028 and U+2029. */
export const ANY = String.raw`[^\n]`
/** `^` and `$` of several lines. */
export const LINE_START = String.raw`(?<![^\n])`
export const LINE_END = String.raw`(?![^\n])`

const SPACES = new RegExp(`${SPACE}+`, 'u')
const LEADING_SPACES = new RegExp(`^${SPACE}+`, 'u')
// oxlint-disable-next-line no-control-regex -- Python ends lines at these
const LINE_BREAK = /\r\n|[\n\v\f\r\u001C-\u001E\u0085\u2028\u2029]/
const DECIMAL_DIGIT = /\p{Nd}/u

/** `int()` refuses longer numbers since Python 3.11. */
const MAX_INTEGER_DIGITS = 4300

/** What the imitated Python code raises: the official harness ends the instance with an error. */
export class PythonError extends Error {
  constructor(type: 'IndexError' | 'ValueError', message: string) {
    super(`${type}: ${message}`)
    this.name = 'PythonError'
  }
}

/** `str.split()` without arguments. */
export function pythonSplit(text: string): string[] {
  return text.split(SPACES).filter((part) => part !== '')
}

/** `str.strip()` without arguments. */
export function pythonStrip(text: string): string {
  return text.slice(0, spacesStart(text, text.length)).replace(LEADING_SPACES, '')
}

/** Where the white space begins that ends there. */
export function spacesStart(text: string, end: number): number {
  let start = end
  while (start > 0 && isSpace(text.charCodeAt(start - 1))) start -= 1
  return start
}

/** `str.splitlines()`: more line breaks than `split('\n')`, and none at the end. */
export function pythonSplitLines(text: string): string[] {
  const lines = text.split(LINE_BREAK)
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** What reading a file in text mode does: CR LF and lone CR become LF. */
export function universalNewlines(text: string): string {
  return text.includes('\r') ? text.replaceAll(/\r\n?/g, '\n') : text
}

/** An element of a list, which must be there. */
export function pythonItem(list: readonly string[], index: number): string {
  const item = list[index]
  if (item === undefined) throw new PythonError('IndexError', 'list index out of range')
  return item
}

/** Is `int(digits)` zero? The digits may be of any script. */
export function isZero(digits: string): boolean {
  const values = Array.from(digits).filter((digit) => digit !== '-')
  if (values.length > MAX_INTEGER_DIGITS) {
    throw new PythonError(
      'ValueError',
      `Exceeds the limit (${MAX_INTEGER_DIGITS} digits) for integer string conversion`,
    )
  }
  return values.every((digit) => decimalValue(digit) === 0)
}

/** Unicode keeps the ten digits of a script together, in order. */
function decimalValue(digit: string): number {
  const code = digit.codePointAt(0) ?? 0
  let first = code
  while (DECIMAL_DIGIT.test(String.fromCodePoint(first - 1))) first -= 1
  return (code - first) % 10
}

function isSpace(unit: number): boolean {
  if (unit <= 0x20) return unit === 0x20 || (unit >= 9 && unit <= 13) || unit >= 0x1c
  if (unit < 0x85) return false
  return SPACES.test(String.fromCharCode(unit))
}
