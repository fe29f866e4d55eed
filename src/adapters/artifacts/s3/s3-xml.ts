/**
 * Parses the few XML answers of S3. Elements are found by name, which text content cannot imitate because it is escaped, so an answer
 * of any length is read in one pass.
 */

/** Returns the texts of all elements of this name, in order. In S3's answers, elements of one name do not nest. */
export function textsOf(xml: string, name: string): string[] {
  const [open, close] = [`<${name}>`, `</${name}>`]
  const texts: string[] = []
  for (let at = xml.indexOf(open); at !== -1; ) {
    const start = at + open.length
    const end = xml.indexOf(close, start)
    if (end === -1) break
    texts.push(xml.slice(start, end))
    at = xml.indexOf(open, end + close.length)
  }
  return texts
}

export function textOf(xml: string, name: string): string | null {
  return textsOf(xml, name)[0] ?? null
}

/**
 * Returns the decoder for keys and prefixes of a listing. They are URL-encoded if the answer says so, as requested (some servers write
 * a space as a plus), and otherwise plain XML.
 */
export function listedTexts(xml: string): (text: string) => string {
  return textOf(xml, 'EncodingType') === 'url'
    ? (text) => decodeURIComponent(text.replaceAll('+', '%20'))
    : (text) => unescapeXml(text)
}

const NAMED: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

export function unescapeXml(text: string): string {
  return text.replaceAll(
    /&(?:#x([0-9a-fA-F]{1,6})|#(\d{1,7})|([a-z]{2,4}));/g,
    (whole, hex?: string, decimal?: string, name?: string) => {
      if (name !== undefined) return NAMED[name] ?? whole
      return String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16))
    },
  )
}

export function escapeXml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`)
}
