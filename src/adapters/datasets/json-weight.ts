const QUOTE = 0x22
const BACKSLASH = 0x5c
const COMMA = 0x2c
const BRACKET = 0x5b
const BRACE = 0x7b
const NEW_LINE = 0x0a

/** What an empty list or object takes in memory, in elements of a list. */
const CONTAINER = 8

/**
 * What JSON weighs once it is parsed: its elements, and eight for each list and object. Two bytes of text can make sixty of memory, and
 * where memory ends, so does the process. Reads once over the text, which may be no JSON; a line ends every string.
 * @param most stops counting beyond this
 */
export function weighJson(text: string, most: number): number {
  let weight = 0
  let isString = false
  for (let at = 0; at < text.length && weight <= most; at++) {
    const code = text.charCodeAt(at)
    if (code === NEW_LINE) {
      isString = false
      weight += 1
    } else if (code === QUOTE) isString = !isString
    else if (isString) at += code === BACKSLASH && text.charCodeAt(at + 1) !== NEW_LINE ? 1 : 0
    else if (code === COMMA) weight += 1
    else if (code === BRACKET || code === BRACE) weight += CONTAINER
  }
  return weight
}
