/**
 * Python's idea of white space, where it differs from JavaScript's: U+001C to U+001F and U+0085 count, U+FEFF does not. The
 * official parsers are Python, and ids were cut by them.
 */
// oxlint-disable-next-line no-control-regex -- Python counts these as blanks
const PYTHON_SPACE = /[\t-\r\u001C-\u0020\u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]+/

/** `str.split()` without arguments. */
export function pythonSplit(text: string): string[] {
  return text.split(PYTHON_SPACE).filter((part) => part !== '')
}

/** What reading a file in text mode does: CR LF and lone CR become LF. */
export function universalNewlines(text: string): string {
  return text.replaceAll(/\r\n?/g, '\n')
}
