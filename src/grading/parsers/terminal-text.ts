/** Removes control sequences of terminals from a text. */

// oxlint-disable-next-line no-control-regex -- sequences begin with it
const ESCAPES = /\u001B(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])/g
// oxlint-disable-next-line no-control-regex -- the same
const COLOUR_CODES = /\u001B\[[0-9;]*m/g

/** Removes all escape sequences. */
export function withoutEscapes(text: string): string {
  return text.replaceAll(ESCAPES, '')
}

/** Removes the sequences that set colours. */
export function withoutColourCodes(text: string, instead = ''): string {
  return text.replaceAll(COLOUR_CODES, instead)
}
