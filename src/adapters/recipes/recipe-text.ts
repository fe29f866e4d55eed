import { type Document, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'
import type { KeyPath, RecipeProblem, TextPosition } from './explain-issues.ts'

/** YAML that remembers where its keys stand. */
export interface RecipeText {
  value: unknown
  syntax: (RecipeProblem & { position: TextPosition })[]
  lines: string[]
  /** Null where the text says nothing of the path, nor of anything above it. */
  locate(path: KeyPath, at: 'value' | 'key'): TextPosition | null
}

export function parseRecipeText(text: string): RecipeText {
  const counter = new LineCounter()
  const document = parseDocument(text, { lineCounter: counter, prettyErrors: false, merge: false })
  const position = (offset: number): TextPosition => {
    const { line, col } = counter.linePos(offset)
    return { line, column: col }
  }
  const syntax = [...document.errors, ...document.warnings].map((error) => ({
    rule: 'syntax' as const,
    path: [],
    message: error.message,
    hint: null,
    at: 'value' as const,
    position: position(error.pos[0]),
  }))
  return {
    value: syntax.length === 0 ? readValue(document) : null,
    syntax,
    lines: text.split('\n'),
    locate: (path, at) => {
      const offset = offsetOf(document, path, at)
      return offset === null ? null : position(offset)
    },
  }
}

/** An empty file is an empty mapping: then the missing keys are named one by one. */
function readValue(document: Document): unknown {
  return document.toJS({ maxAliasCount: 100 }) ?? {}
}

function offsetOf(document: Document, path: KeyPath, at: 'value' | 'key'): number | null {
  let node: unknown = document.contents
  let keyOffset: number | null = null
  for (const [depth, key] of path.entries()) {
    const found = childOf(node, key)
    // A missing key is reported where it belongs: at the mapping that should hold it.
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
