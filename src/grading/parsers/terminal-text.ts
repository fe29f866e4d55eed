/** What terminals take out of a text before they show it. */

// oxlint-disable-next-line no-control-regex -- sequences begin with it
const ESCAPES = /\u001B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])/g
// oxlint-disable-next-line no-control-regex -- the same
const COLOUR_CODES = /\u001B\[[0-9;]*m/g

/** Without any escape sequence. */
export function withoutEscapes(text: string): string {
  return text.replaceAll(ESCAPES, '')
}

/** Without the sequences that set colours. */
export function withoutColourCodes(text: string, instead = ''): string {
  return text.replaceAll(COLOUR_CODES, instead)
}
