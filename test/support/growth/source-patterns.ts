import { readFile, readdir } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** A regular expression in a source file, or one that is built while a module loads. */
export interface SourcePattern {
  file: string
  source: string
  flags: string
}

const ROOT = join(import.meta.dirname, '../../..')

/** Every distinct pattern of the modules at the given paths (files or folders relative to the root). */
export async function patternsIn(paths: readonly string[]): Promise<SourcePattern[]> {
  const files = (await Promise.all(paths.map(filesAt))).flat()
  const found = new Map<string, SourcePattern>()
  for (const file of files) {
    const text = stripTypeScriptTypes(await readFile(join(ROOT, file), 'utf8'))
    for (const { source, flags } of [...literalsIn(text), ...(await builtBy(file))]) {
      const known = `/${source}/${flags}`
      if (!found.has(known)) found.set(known, { file, source, flags })
    }
  }
  return [...found.values()]
}

async function filesAt(path: string): Promise<string[]> {
  if (path.endsWith('.ts')) return [path]
  const entries = await readdir(join(ROOT, path), { recursive: true })
  return entries
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts') && !name.endsWith('.types.ts'))
    .map((name) => join(path, name))
    .toSorted()
}

/** Patterns that the module passes to the constructor while it loads. The module is loaded again under its own address. */
async function builtBy(file: string): Promise<RegExp[]> {
  const built: RegExp[] = []
  const original = globalThis.RegExp
  globalThis.RegExp = new Proxy(original, {
    construct(target, input: [string, string?]) {
      const pattern = new target(...input)
      built.push(pattern)
      return pattern
    },
  })
  try {
    await import(`${pathToFileURL(join(ROOT, file)).href}?patterns`)
  } finally {
    globalThis.RegExp = original
  }
  return built
}

/** Text that may precede a pattern; after anything else a slash divides. */
const BEFORE_PATTERN = /(?:^|[(,=:[!&|?{};>\n]|\b(?:return|typeof|case))$/

/** Regular expression literals of JavaScript text, skipping comments, strings and templates. */
export function literalsIn(text: string): RegExp[] {
  const found: RegExp[] = []
  let before = ''
  for (let at = 0; at < text.length; ) {
    const rest = text.slice(at, at + 2)
    const character = text[at] ?? ''
    if (rest === '//') at = endOf(text.indexOf('\n', at), text)
    else if (rest === '/*') at = endOf(text.indexOf('*/', at), text) + 2
    else if (character === '"' || character === "'" || character === '`') {
      at = afterQuoted(text, at)
      before = character
    } else if (character === '/' && BEFORE_PATTERN.test(before)) {
      const end = afterPattern(text, at)
      const flags = /^[a-z]*/.exec(text.slice(end))?.[0] ?? ''
      found.push(new RegExp(text.slice(at + 1, end - 1), flags))
      at = end + flags.length
      before = '/'
    } else {
      before = /\s/.test(character) ? before : (before + character).slice(-6)
      if (/\s/.test(character) && /\w$/.test(before)) before = `${before} `.trim()
      at += 1
    }
  }
  return found
}

function endOf(index: number, text: string): number {
  return index < 0 ? text.length : index
}

/** Templates are skipped as a whole, because their placeholders contain no patterns in this code base. */
function afterQuoted(text: string, start: number): number {
  const quote = text[start]
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === quote) return at + 1
  }
  return text.length
}

function afterPattern(text: string, start: number): number {
  let isInClass = false
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1
    else if (text[at] === '[') isInClass = true
    else if (text[at] === ']') isInClass = false
    else if (text[at] === '/' && !isInClass) return at + 1
  }
  return text.length
}
