/**
 * A strict reader of XML 1.0 with namespaces for test reports: the official parsers use Python's, which refuses documents that are
 * not well-formed. Reads elements and attributes only, and refuses declarations inside of a document type.
 */
import { PythonError } from './python-text.ts'
import { isXmlCharacter, NAME, NAME_START } from './xml-names.ts'

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
