import {
  type Document,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  visit,
  type YAMLError,
} from 'yaml'
import type { KeyPath, RecipeProblem, TextPosition } from './explain-issues.ts'

/** YAML text with the positions of its keys. */
export interface RecipeText {
  value: unknown
  syntax: (RecipeProblem & { position: TextPosition })[]
  lines: string[]
  /** Null if the text contains neither the path nor any of its parents. */
  locate(path: KeyPath, at: 'value' | 'key'): TextPosition | null
}

/** Characters. The parser compares all keys of a mapping with each other: a megabyte of short keys takes it minutes. */
const MOST_TEXT = 128 * 1024
const MOST_ALIASES = 100
/** More faults of the syntax say nothing more. */
const MOST_FAULTS = 20

export function parseRecipeText(text: string): RecipeText {
  if (text.length > MOST_TEXT) {
    const { lines, locate } = parseRecipeText('')
    const message = `expected a text of at most ${MOST_TEXT / 1024} KiB, got ${Math.ceil(text.length / 1024)} KiB`
    const position = { line: 1, column: 1 }
    return {
      value: null,
      lines,
      locate,
      syntax: [{ rule: 'syntax', path: [], message, hint: null, at: 'value', position }],
    }
  }
  const counter = new LineCounter()
  // Warnings are silenced: what the parser would print to stderr is reported as a problem with a line, or as an unknown key.
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, merge: false, logLevel: 'error' })
  const position = (offset: number): TextPosition => {
    const { line, col } = counter.linePos(offset)
    return { line, column: col }
  }
  const { value, faults } = readValue(document)
  const syntax = faults.map(({ message, offset }) => ({
    rule: 'syntax' as const,
    path: [],
    message,
    hint: null,
    at: 'value' as const,
    position: position(offset),
  }))
  return {
    value,
    syntax,
    lines: text.split('\n'),
    locate: (path, at) => {
      const offset = offsetOf(document, path, at)
      return offset === null ? null : position(offset)
    },
  }
}

interface Fault {
  message: string
  offset: number
}

/** An empty file counts as an empty mapping, so that the missing keys are reported one by one. */
function readValue(document: Document): { value: unknown; faults: Fault[] } {
  const faults = [...document.errors, ...document.warnings].map((error) => ({
    message: describeSyntax(error),
    offset: error.pos[0],
  }))
  if (faults.length > 0) return { value: null, faults: faults.slice(0, isTooDeep(document) ? 1 : MOST_FAULTS) }
  const { contents } = document
  const refuse = (message: string, node: unknown = contents): { value: null; faults: Fault[] } => ({
    value: null,
    faults: [{ message, offset: startOf(node) ?? 0 }],
  })
  try {
    const forbidden = findForbidden(document)
    if (forbidden !== null) return refuse(forbidden.message, forbidden.node)
    const value: unknown = document.toJS({ maxAliasCount: MOST_ALIASES }) ?? {}
    return isMap(contents) || contents === null || (isScalar(contents) && contents.value === null)
      ? { value, faults: [] }
      : refuse('expected keys with values, such as seed: 1')
  } catch (error) {
    // Excessive aliases and undefined aliases are found only when the value is built.
    if (error instanceof RangeError) return refuse(TOO_DEEP)
    const message = error instanceof Error ? error.message : String(error)
    return refuse(message.startsWith('Excessive alias') ? FEWER_ALIASES : message)
  }
}

const FEWER_ALIASES = 'expected fewer aliases'
const TOO_DEEP = 'expected less nesting'

/** The parser reports its own stack overflow as an error of the text. */
function isTooDeep({ errors }: Document): boolean {
  return errors.some(({ message }) => message.includes('call stack'))
}

/** Replaces those of the parser's messages that are meant for programmers. */
function describeSyntax({ code, message }: YAMLError): string {
  if (code === 'MULTIPLE_DOCS') return 'expected one document, and a second one begins here'
  return message.includes('call stack') ? TOO_DEEP : message
}

/** Finds constructs that YAML allows but a checked value cannot represent. */
function findForbidden(document: Document): { message: string; node: unknown } | null {
  let found: { message: string; node: unknown } | null = null
  let aliases = 0
  visit(document, {
    Pair: (_, { key }) => {
      if (!isScalar(key) || key.value !== '__proto__') return undefined
      // A check that copies an object would silently lose this key.
      found = { message: 'no key may be called __proto__', node: key }
      return visit.BREAK
    },
    Scalar: (_, scalar) => {
      const text = typeof scalar.value === 'number' ? (scalar.source ?? '') : ''
      const [digits] = /^[-+]?0\d+$/.exec(text) ?? []
      if (digits === undefined) return undefined
      const decimal = digits.replace(/^([-+]?)0+(?=\d)/, '$1')
      // YAML 1.1 reads such a number as octal, YAML 1.2 as decimal, and a reader of the file may know either.
      found = {
        message: `expected a number without a zero before it, got ${digits.slice(0, 40)}: write ${decimal.slice(0, 40)}, or "${digits.slice(0, 40)}" for text`,
        node: scalar,
      }
      return visit.BREAK
    },
    Alias: (_, alias, path) => {
      aliases += 1
      // Each one is looked up in the whole document.
      if (aliases > MOST_ALIASES) {
        found = { message: FEWER_ALIASES, node: alias }
        return visit.BREAK
      }
      const target = alias.resolve(document)
      if (target === undefined || !path.includes(target)) return undefined
      found = { message: `the alias *${alias.source} is part of what it stands for`, node: alias }
      return visit.BREAK
    },
  })
  return found
}

function offsetOf(document: Document, path: KeyPath, at: 'value' | 'key'): number | null {
  let node: unknown = document.contents
  let keyOffset: number | null = null
  for (const [depth, key] of path.entries()) {
    const found = childOf(node, key)
    // A missing key is reported at the mapping that should contain it.
    if (found === null) return keyOffset
    keyOffset = found.keyOffset ?? keyOffset
    node = found.node
    if (depth === path.length - 1 && at === 'value') return startOf(node) ?? keyOffset
  }
  return keyOffset
}

function childOf(node: unknown, key: string | number): { node: unknown; keyOffset: number | null } | null {
  if (isSeq(node) && typeof key === 'number') {
    const item = node.items[key]
    return item === undefined ? null : { node: item, keyOffset: startOf(item) }
  }
  if (!isMap(node)) return null
  const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(key))
  return pair === undefined ? null : { node: pair.value, keyOffset: startOf(pair.key) }
}

function startOf(node: unknown): number | null {
  return (node as Node | null)?.range?.[0] ?? null
}
