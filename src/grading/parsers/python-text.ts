/**
 * Python's text rules where they differ from JavaScript's. The official parsers are Python, and they cut the ids of the data sets.
 * Character classes are pattern sources for the flag `u`.
 */

/** Whitespace: U+001C to U+001F and U+0085 belong to it, U+FEFF does not. */
export const SPACE = String.raw`[\t-\r\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]`
export const NOT_SPACE = String.raw`[^\t-\r\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]`
/** `\d` is any decimal digit of Unicode, `\w` any letter, number or underscore. */
export const DIGIT = String.raw`\p{Nd}`
export const WORD = String.raw`[\p{L}\p{N}_]`
/** `\b` over `WORD`. */
export const WORD_EDGE = `(?:(?<=${WORD})(?!${WORD})|(?<!${WORD})(?=${WORD}))`
/** `.`: only U+000A ends a line; in JavaScript U+000D, U+2028 and U+2029 do too. */
export const ANY = String.raw`[^\n]`
/** `^` and `$` in multiline mode. */
export const LINE_START = String.raw`(?<![^\n])`
export const LINE_END = String.raw`(?![^\n])`

const SPACES = new RegExp(`${SPACE}+`, 'u')
const LEADING_SPACES = new RegExp(`^${SPACE}+`, 'u')
// oxlint-disable-next-line no-control-regex -- Python ends lines at these
const LINE_BREAK = /\r\n|[\n\v\f\r\u001C-\u001E\u0085\u2028\u2029]/
const DECIMAL_DIGIT = /\p{Nd}/u

/** `int()` refuses longer numbers since Python 3.11. */
const MAX_INTEGER_DIGITS = 4300

export type PythonErrorType = (typeof PYTHON_ERRORS)[number]

export const PYTHON_ERRORS = [
  'IndexError',
  'ValueError',
  'AttributeError',
  'TypeError',
  'MemoryError',
  'ParseError',
] as const

/** An exception that the imitated Python code raises; the official harness then ends the instance with an error. */
export class PythonError extends Error {
  constructor(type: PythonErrorType, message: string) {
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

/** `str.rstrip()` without arguments. */
export function pythonStripEnd(text: string): string {
  return text.slice(0, spacesStart(text, text.length))
}

/** Where the whitespace that ends at `end` begins. */
export function spacesStart(text: string, end: number): number {
  let start = end
  while (start > 0 && isSpace(text.charCodeAt(start - 1))) start -= 1
  return start
}

/** `str.splitlines()`: splits at more characters than `split('
 *  ')`, and returns no empty last line. */
export function pythonSplitLines(text: string): string[] {
  const lines = text.split(LINE_BREAK)
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** Python's text mode: CR LF and a lone CR become LF. */
export function universalNewlines(text: string): string {
  return text.includes('\r') ? text.replaceAll(/\r\n?/g, '\n') : text
}

/** An element of a list; raises if it is missing. */
export function pythonItem(list: readonly string[], index: number): string {
  const item = list[index]
  if (item === undefined) throw new PythonError('IndexError', 'list index out of range')
  return item
}

/** Whether `int(digits)` is zero. */
export function isZero(digits: string): boolean {
  return pythonInteger(digits.replace('-', '')) === 0n
}

/** `int(digits)`, in any script. @throws PythonError for too many digits, and for superscript or circled ones */
export function pythonInteger(digits: string): bigint {
  const characters = Array.from(digits)
  if (characters.length > MAX_INTEGER_DIGITS) {
    throw new PythonError(
      'ValueError',
      `Exceeds the limit (${MAX_INTEGER_DIGITS} digits) for integer string conversion`,
    )
  }
  return BigInt(characters.map(decimalValue).join(''))
}

/** Digits that are no decimals: superscript, subscript, circled, and of scripts without a zero. */
const OTHER_DIGIT =
  /^[\u00B2\u00B3\u00B9\u1369-\u1371\u19DA\u2070\u2074-\u2079\u2080-\u2089\u2460-\u2468\u2474-\u247C\u2488-\u2490\u24EA\u24F5-\u24FD\u24FF\u2776-\u277E\u2780-\u2788\u278A-\u2792\u{10A40}-\u{10A43}\u{10E60}-\u{10E68}\u{11052}-\u{1105A}\u{1F100}-\u{1F10A}]$/u

/** `str.isdigit()`; `int()` refuses some of these. */
export function isPythonDigit(text: string): boolean {
  return text !== '' && Array.from(text).every((one) => DECIMAL_DIGIT.test(one) || OTHER_DIGIT.test(one))
}

/** In Unicode the ten digits of a script are consecutive and in order. */
function decimalValue(digit: string): number {
  if (!DECIMAL_DIGIT.test(digit)) throw new PythonError('ValueError', 'invalid literal for int() with base 10')
  const code = digit.codePointAt(0) ?? 0
  let first = code
  while (DECIMAL_DIGIT.test(String.fromCodePoint(first - 1))) first -= 1
  return (code - first) % 10
}

function isSpace(unit: number): boolean {
  if (unit <= 0x20) return (unit >= 9 && unit <= 13) || unit >= 0x1c
  if (unit < 0x85) return false
  return SPACES.test(String.fromCharCode(unit))
}
