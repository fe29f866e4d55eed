/**
 * Finds the files that a path through the program passes. A walk reads the text of `src`, starts at the path's first functions, and
 * follows each name of another file that a function's text uses. Types and `contracts` are left out; a class counts as one name; an
 * implementation behind an interface has no import to follow and needs its own start. A walk counts every file that a path could
 * pass, so the result is an upper bound.
 */
import { readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'

const root = join(import.meta.dirname, '../..')

export interface Start {
  /** Relative to the root of the repository. */
  file: string
  name: string
}

/** The original name of an imported name, and its file. */
interface Origin {
  file: string
  /** Null: all names of the file. */
  name: string | null
}

export interface Module {
  imports: Map<string, Origin>
  /** Text of each declaration, by name. */
  declarations: Map<string, string>
}

/** The files in order of discovery, each with the file that led there; null for one that contains a start.
 *  @throws Error for a missing start, because a walk without it would be too short */
export function walk(
  starts: readonly Start[],
  read: (file: string) => string = (file) => readFileSync(join(root, file), 'utf8'),
): Map<string, string | null> {
  const modules = new Map<string, Module>()
  const moduleOf = (file: string): Module => {
    const known = modules.get(file) ?? parseModule(file, read(file))
    modules.set(file, known)
    return known
  }
  for (const { file, name } of starts) {
    if (!moduleOf(file).declarations.has(name)) throw new Error(`${file} declares no ${name}`)
  }
  const files = new Map<string, string | null>()
  const seen = new Set<string>()
  const queue: { origin: Origin; from: string | null }[] = starts.map((origin) => ({ origin, from: null }))
  for (const { origin, from } of queue) {
    const { file, name } = origin
    if (file.startsWith('src/contracts/') || seen.has(`${file}#${name}`)) continue
    seen.add(`${file}#${name}`)
    if (!files.has(file)) files.set(file, from)
    const { imports, declarations } = moduleOf(file)
    for (const one of name === null ? declarations.keys() : [name]) {
      // A name without a declaration is re-exported from another file.
      for (const used of namesIn(declarations.get(one) ?? one)) {
        const imported = imports.get(used)
        if (imported !== undefined) queue.push({ origin: imported, from: file })
        else if (declarations.has(used)) queue.push({ origin: { file, name: used }, from })
      }
    }
  }
  return files
}

const IMPORT = /^(?:import|export)\s+(?!type\b)([^'"]*?)\s+from\s+'(\.[^']+)'$/gm
/** The formatter indents all lines of a statement except the first and the last. */
const STATEMENT = /^(?=[A-Za-z])/m
const DECLARATION = /^(?:export )?(?:async )?(?:function\*?|(?:abstract )?class|const|let)\s+(\{[^}]*\}|\w+)/

export function parseModule(file: string, text: string): Module {
  const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, '').replaceAll(/(?<=^|\s)\/\/.*$/gm, '')
  const imports = new Map<string, Origin>()
  for (const [, names = '', path = ''] of code.matchAll(IMPORT)) {
    const target = relative(root, join(root, dirname(file), path))
    for (const one of names.replaceAll(/[{}]/g, '').split(',')) {
      const [, name = '', local = name] = /^\s*(?!type\s)(\*|\w+)(?:\s+as\s+(\w+))?\s*$/.exec(one) ?? []
      if (name !== '') imports.set(local, { file: target, name: name === '*' ? null : name })
    }
  }
  const declarations = new Map<string, string>()
  for (const statement of code.split(STATEMENT)) {
    const [, names = ''] = DECLARATION.exec(statement) ?? []
    for (const [name] of names.matchAll(/\w+/g)) declarations.set(name, statement)
  }
  return { imports, declarations }
}

/** All names except members: `a` of `a.b`, and both of `...a, b`. */
function namesIn(text: string): Set<string> {
  return new Set([...text.matchAll(/(?<![\w$])(?<!(?<!\.\.)\.)[A-Za-z_]\w*/g)].map(([name]) => name))
}
