/**
 * A strict reader of XML 1.0 with namespaces for test reports: the official parsers use Python's, which refuses documents that are
 * not well-formed. Reads elements and attributes only, and refuses declarations inside of a document type.
 */
import { PythonError } from './python-text.ts'

/**
 * Name characters of XML 1.0, fourth edition, which Python's parser follows: ranges of code points without ASCII. Names contain no
 * character beyond U+FFFF.
 */
const LETTERS = `
  C0-D6 D8-F6 F8-131 134-13E 141-148 14A-17E 180-1C3 1CD-1F0 1F4-1F5 1FA-217 250-2A8 2BB-2C1 386 388-38A 38C 38E-3A1 3A3-3CE 3D0-3D6 3DA
  3DC 3DE 3E0 3E2-3F3 401-40C 40E-44F 451-45C 45E-481 490-4C4 4C7-4C8 4CB-4CC 4D0-4EB 4EE-4F5 4F8-4F9 531-556 559 561-586 5D0-5EA
  5F0-5F2 621-63A 641-64A 671-6B7 6BA-6BE 6C0-6CE 6D0-6D3 6D5 6E5-6E6 905-939 93D 958-961 985-98C 98F-990 993-9A8 9AA-9B0 9B2 9B6-9B9
  9DC-9DD 9DF-9E1 9F0-9F1 A05-A0A A0F-A10 A13-A28 A2A-A30 A32-A33 A35-A36 A38-A39 A59-A5C A5E A72-A74 A85-A8B A8D A8F-A91 A93-AA8
  AAA-AB0 AB2-AB3 AB5-AB9 ABD AE0 B05-B0C B0F-B10 B13-B28 B2A-B30 B32-B33 B36-B39 B3D B5C-B5D B5F-B61 B85-B8A B8E-B90 B92-B95 B99-B9A
  B9C B9E-B9F BA3-BA4 BA8-BAA BAE-BB5 BB7-BB9 C05-C0C C0E-C10 C12-C28 C2A-C33 C35-C39 C60-C61 C85-C8C C8E-C90 C92-CA8 CAA-CB3 CB5-CB9
  CDE CE0-CE1 D05-D0C D0E-D10 D12-D28 D2A-D39 D60-D61 E01-E2E E30 E32-E33 E40-E45 E81-E82 E84 E87-E88 E8A E8D E94-E97 E99-E9F EA1-EA3
  EA5 EA7 EAA-EAB EAD-EAE EB0 EB2-EB3 EBD EC0-EC4 F40-F47 F49-F69 10A0-10C5 10D0-10F6 1100 1102-1103 1105-1107 1109 110B-110C 110E-1112
  113C 113E 1140 114C 114E 1150 1154-1155 1159 115F-1161 1163 1165 1167 1169 116D-116E 1172-1173 1175 119E 11A8 11AB 11AE-11AF 11B7-11B8
  11BA 11BC-11C2 11EB 11F0 11F9 1E00-1E9B 1EA0-1EF9 1F00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4
  1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2126 212A-212B 212E 2180-2182 3007 3021-3029
  3041-3094 30A1-30FA 3105-312C 4E00-9FA5 AC00-D7A3`

const OTHERS = `
  B7 2D0-2D1 300-345 360-361 387 483-486 591-5A1 5A3-5B9 5BB-5BD 5BF 5C1-5C2 5C4 640 64B-652 660-669 670 6D6-6E4 6E7-6E8 6EA-6ED 6F0-6F9
  901-903 93C 93E-94D 951-954 962-963 966-96F 981-983 9BC 9BE-9C4 9C7-9C8 9CB-9CD 9D7 9E2-9E3 9E6-9EF A02 A3C A3E-A42 A47-A48 A4B-A4D
  A66-A71 A81-A83 ABC ABE-AC5 AC7-AC9 ACB-ACD AE6-AEF B01-B03 B3C B3E-B43 B47-B48 B4B-B4D B56-B57 B66-B6F B82-B83 BBE-BC2 BC6-BC8
  BCA-BCD BD7 BE7-BEF C01-C03 C3E-C44 C46-C48 C4A-C4D C55-C56 C66-C6F C82-C83 CBE-CC4 CC6-CC8 CCA-CCD CD5-CD6 CE6-CEF D02-D03 D3E-D43
  D46-D48 D4A-D4D D57 D66-D6F E31 E34-E3A E46-E4E E50-E59 EB1 EB4-EB9 EBB-EBC EC6 EC8-ECD ED0-ED9 F18-F19 F20-F29 F35 F37 F39 F3E-F3F
  F71-F84 F86-F8B F90-F95 F97 F99-FAD FB1-FB7 FB9 20D0-20DC 20E1 3005 302A-302F 3031-3035 3099-309A 309D-309E 30FC-30FE`

function classOf(ranges: string): string {
  return ranges.replaceAll(/[0-9A-F]+/g, (point) => `\\u{${point}}`).replaceAll(/\s/g, '')
}

/** Without the colon, which separates a prefix from a name. */
const NAME_START = `[A-Z_a-z${classOf(LETTERS)}]`
const NAME = `[\\-.0-9A-Z_a-z${classOf(LETTERS)}${classOf(OTHERS)}]`

function isXmlCharacter(code: number): boolean {
  if (code < 0x20) return code === 0x9 || code === 0xa || code === 0xd
  return code < 0xd800 || (code >= 0xe000 && code < 0xfffe) || (code >= 0x1_0000 && code <= 0x10_ffff)
}

export interface XmlElement {
  /** With its namespace in braces, if it has one. */
  tag: string
  attributes: ReadonlyMap<string, string>
  children: XmlElement[]
}

/** @throws PythonError `ParseError` if the text is not a well-formed document */
export function parseXml(text: string): XmlElement {
  return new Reader(text).readDocument()
}

/** All elements below `root`, in document order. */
export function* descendants(root: XmlElement): Generator<XmlElement> {
  const open = root.children.toReversed()
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    yield next
    for (let at = next.children.length - 1; at >= 0; at -= 1) {
      const child = next.children[at]
      if (child !== undefined) open.push(child)
    }
  }
}

const QNAME_SOURCE = `${NAME_START}${NAME}*(?::${NAME_START}${NAME}*)?`
const QNAME = new RegExp(QNAME_SOURCE, 'uy')
const BLANKS = /[ \t\n\r]*/y
const DECLARATION =
  /<\?xml[ \t\n\r]+version[ \t\n\r]*=[ \t\n\r]*(?:"[A-Za-z0-9._-]*"|'[A-Za-z0-9._-]*')(?:[ \t\n\r]+encoding[ \t\n\r]*=[ \t\n\r]*(?:"[A-Za-z][A-Za-z0-9._-]*"|'[A-Za-z][A-Za-z0-9._-]*'))?(?:[ \t\n\r]+standalone[ \t\n\r]*=[ \t\n\r]*(?:"(?:yes|no)"|'(?:yes|no)'))?[ \t\n\r]*\?>/y
const STANDALONE = /standalone[ \t\n\r]*=[ \t\n\r]*["']yes/
const PUBLIC_ID = String.raw`(?:"[-\n\r 0-9A-Za-z'()+,./:=?;!*#@$_%]*"|'[-\n\r 0-9A-Za-z()+,./:=?;!*#@$_%]*')`
const DOCUMENT_TYPE = new RegExp(
  String.raw`<!DOCTYPE[ \t\n\r]+${QNAME_SOURCE}(?=[ \t\n\r[>])(?:[ \t\n\r]+(SYSTEM|PUBLIC[ \t\n\r]+${PUBLIC_ID})[ \t\n\r]+(?:"[^"]*"|'[^']*'))?[ \t\n\r]*`,
  'uy',
)
const PARAMETER = new RegExp(`%${NAME_START}${NAME}*;`, 'uy')
const SUBSET_END = /\][ \t\n\r]*/y
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ['lt', '<'],
  ['gt', '>'],
  ['amp', '&'],
  ['quot', '"'],
  ['apos', "'"],
])
const REFERENCE = new RegExp(`&(?:#([0-9]+)|#x([0-9A-Fa-f]+)|(${NAME_START}${NAME}*));`, 'uy')

const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace'
const XMLNS_NAMESPACE = 'http://www.w3.org/2000/xmlns/'

interface Open {
  element: XmlElement
  /** The tag as written, to compare with the end tag. */
  written: string
  /** Prefixes that the element declares. */
  prefixes: string[]
}

class Reader {
  private at = 0
  /** Namespaces of each prefix, innermost last; the empty prefix is the default. */
  private readonly namespaces = new Map<string, string[]>([['xml', [XML_NAMESPACE]]])
  private readonly open: Open[] = []
  /** Whether undefined entities may come from a DTD, which expat does not load. */
  private hasForeignEntities = false
  private readonly text: string

  constructor(text: string) {
    this.text = text.startsWith('\uFEFF') ? text.slice(1) : text
  }

  readDocument(): XmlElement {
    const isDeclared = this.text.startsWith('<?xml') && /^[ \t\n\r?]/.test(this.text.slice(5, 6))
    const isStandalone = isDeclared && STANDALONE.test(this.take(DECLARATION))
    this.readMisc()
    if (this.text.startsWith('<!DOCTYPE', this.at)) {
      this.hasForeignEntities = this.readDocumentType() && !isStandalone
      this.readMisc()
    }
    const root = this.readStart()
    while (this.open.length > 0) this.readContent()
    this.readMisc()
    if (this.at < this.text.length) throw this.error()
    return root
  }

  /** Returns whether it refers to external declarations. */
  private readDocumentType(): boolean {
    const start = this.at
    let isForeign = this.take(DOCUMENT_TYPE, 1) !== ''
    if (!isXmlCharacters(this.text.slice(start, this.at))) throw this.error()
    if (this.text[this.at] === '[') {
      this.at += 1
      this.readMisc()
      while (this.text[this.at] === '%') {
        isForeign = true
        this.take(PARAMETER)
        this.readMisc()
      }
      this.take(SUBSET_END)
    }
    if (this.text[this.at] !== '>') throw this.error()
    this.at += 1
    return isForeign
  }

  /** Skips whitespace, comments and instructions. */
  private readMisc(): void {
    for (;;) {
      this.take(BLANKS)
      if (!this.readComment() && !this.readInstruction()) return
    }
  }

  private readContent(): void {
    const next = this.text.indexOf('<', this.at)
    if (next < 0) throw this.error()
    const written = this.text.slice(this.at, next)
    if (written.includes(']]>') || !isXmlCharacters(written)) throw this.error()
    this.readReferences(written, null)
    this.at = next
    if (this.text.startsWith('</', next)) this.readEnd()
    else if (this.text.startsWith('<![CDATA[', next)) this.readTo(']]>', '<![CDATA['.length)
    else if (!this.readComment() && !this.readInstruction()) this.readStart()
  }

  private readComment(): boolean {
    if (!this.text.startsWith('<!--', this.at)) return false
    const end = this.text.indexOf('--', this.at + 4)
    if (end < 0 || this.text[end + 2] !== '>') throw this.error()
    this.readTo('-->', 4)
    return true
  }

  private readInstruction(): boolean {
    if (!this.text.startsWith('<?', this.at)) return false
    this.at += 2
    const target = this.take(QNAME)
    const isWhole = this.text.startsWith('?>', this.at) || /[ \t\n\r]/.test(this.text[this.at] ?? '')
    if (target.toLowerCase() === 'xml' || target.includes(':') || !isWhole) throw this.error()
    this.readTo('?>', 0)
    return true
  }

  private readTo(end: string, from: number): void {
    const found = this.text.indexOf(end, this.at + from)
    if (found < 0 || !isXmlCharacters(this.text.slice(this.at + from, found))) throw this.error()
    this.at = found + end.length
  }

  private readStart(): XmlElement {
    if (this.text[this.at] !== '<') throw this.error()
    this.at += 1
    const written = this.take(QNAME)
    const plain = new Map<string, string>()
    let isEmpty = false
    for (;;) {
      const blanks = this.take(BLANKS)
      if (this.text[this.at] === '>') break
      isEmpty = this.text.startsWith('/>', this.at)
      if (isEmpty) break
      if (blanks === '') throw this.error()
      const name = this.take(QNAME)
      if (plain.has(name)) throw this.error()
      plain.set(name, this.readValue())
    }
    this.at += isEmpty ? 2 : 1
    const prefixes = this.bindPrefixes(plain)
    const element: XmlElement = {
      tag: this.expand(written, this.innermost('')),
      attributes: this.attributesOf(plain),
      children: [],
    }
    this.open.at(-1)?.element.children.push(element)
    if (isEmpty) this.unbindPrefixes(prefixes)
    else this.open.push({ element, written, prefixes })
    return element
  }

  private readEnd(): void {
    this.at += 2
    const written = this.take(QNAME)
    this.take(BLANKS)
    const closed = this.open.pop()
    if (closed?.written !== written || this.text[this.at] !== '>') throw this.error()
    this.at += 1
    this.unbindPrefixes(closed.prefixes)
  }

  private readValue(): string {
    this.take(BLANKS)
    if (this.text[this.at] !== '=') throw this.error()
    this.at += 1
    this.take(BLANKS)
    const quote = this.text[this.at]
    if (quote !== '"' && quote !== "'") throw this.error()
    const end = this.text.indexOf(quote, this.at + 1)
    const written = this.text.slice(this.at + 1, end)
    if (end < 0 || written.includes('<') || !isXmlCharacters(written)) throw this.error()
    this.at = end + 1
    // In attributes expat skips such entities; in content Python's reader above expat refuses them.
    return this.readReferences(written.replaceAll(/[\t\n\r]/g, ' '), this.hasForeignEntities ? '' : null)
  }

  /** Replaces the references in a text. @param unknown the value of an undefined entity; null: an error */
  private readReferences(written: string, unknown: string | null): string {
    const parts: string[] = []
    let from = 0
    for (let at = written.indexOf('&'); at >= 0; at = written.indexOf('&', from)) {
      REFERENCE.lastIndex = at
      const match = REFERENCE.exec(written)
      if (match === null) throw this.error()
      parts.push(written.slice(from, at), this.referred(match, unknown))
      from = at + match[0].length
    }
    return parts.join('') + written.slice(from)
  }

  private referred([, decimal, hexadecimal, name]: RegExpExecArray, unknown: string | null): string {
    if (name !== undefined) {
      const text = ENTITIES.get(name) ?? unknown
      if (text === null) throw this.error()
      return text
    }
    const code = decimal === undefined ? Number.parseInt(hexadecimal ?? '', 16) : Number.parseInt(decimal, 10)
    if (!isXmlCharacter(code)) throw this.error()
    return String.fromCodePoint(code)
  }

  /** Takes the namespace declarations out of an element's attributes, and returns their prefixes. */
  private bindPrefixes(plain: Map<string, string>): string[] {
    const prefixes: string[] = []
    for (const [name, uri] of plain) {
      if (name !== 'xmlns' && !name.startsWith('xmlns:')) continue
      const prefix = name.slice('xmlns:'.length)
      const isReserved = (prefix === 'xml') !== (uri === XML_NAMESPACE) || prefix === 'xmlns' || uri === XMLNS_NAMESPACE
      if (isReserved || (prefix !== '' && uri === '') || uri.includes('}')) throw this.error()
      plain.delete(name)
      prefixes.push(prefix)
      const known = this.namespaces.get(prefix)
      if (known === undefined) this.namespaces.set(prefix, [uri])
      else known.push(uri)
    }
    return prefixes
  }

  private unbindPrefixes(prefixes: readonly string[]): void {
    for (const prefix of prefixes) this.namespaces.get(prefix)?.pop()
  }

  private innermost(prefix: string): string | undefined {
    return this.namespaces.get(prefix)?.at(-1)
  }

  private attributesOf(plain: ReadonlyMap<string, string>): Map<string, string> {
    const attributes = new Map<string, string>()
    for (const [name, value] of plain) {
      const expanded = this.expand(name, undefined)
      if (attributes.has(expanded)) throw this.error()
      attributes.set(expanded, value)
    }
    return attributes
  }

  private expand(name: string, defaultNamespace: string | undefined): string {
    const colon = name.indexOf(':')
    if (colon < 0)
      return defaultNamespace === undefined || defaultNamespace === '' ? name : `{${defaultNamespace}}${name}`
    const namespace = this.innermost(name.slice(0, colon))
    if (namespace === undefined) throw this.error()
    return `{${namespace}}${name.slice(colon + 1)}`
  }

  private take(pattern: RegExp, group = 0): string {
    pattern.lastIndex = this.at
    const match = pattern.exec(this.text)
    if (match === null) throw this.error()
    this.at += match[0].length
    return match[group] ?? ''
  }

  private error(): PythonError {
    return new PythonError('ParseError', `the report is not well-formed XML at character ${this.at}`)
  }
}

// oxlint-disable-next-line no-control-regex -- these are what XML cannot hold
const NO_XML_CHARACTER = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/

function isXmlCharacters(text: string): boolean {
  return !NO_XML_CHARACTER.test(text)
}
