import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type CollectedTest, takeCollected } from './test-collector.ts'

export interface Generation {
  number: number
  /** Whether Stryker's code counts which test reaches which mutant; five times slower and needed once. */
  isCounting: boolean
  /** A module that must be evaluated again together with all its importers; the others are those of the base. @default all are loaded
   *  again */
  changed?: { file: string; base: number }
}

/** Loads test files repeatedly, each time with its own modules, and records which module imports which. */
export interface ModuleGenerations {
  /** Modules of the same generation are shared. @throws what a module throws when it loads */
  load(file: string, generation: Generation): Promise<CollectedTest[]>
  /** Imports between a test file and a module; Infinity if the test file does not load it. Known after the file was loaded. */
  distance(testFile: string, file: string): number
}

/** Stryker's counting function, as it appears in each instrumented module. */
const COUNT = 'function stryCov_9fa48() {'

const COLLECTOR = new URL('./test-collector.ts', import.meta.url).href

/** @param root absolute; modules below it are loaded again, those of packages never */
export function createModuleGenerations(root: string): ModuleGenerations {
  const base = pathToFileURL(`${root}/`).href
  const isOurs = (url: string): boolean => url.startsWith(base) && !url.includes('/node_modules/')
  const sources = new Map<string, string>()
  const changes = new Map<string, { file: string; base: number }>()
  const imports = new Map<string, Set<string>>()

  registerHooks({
    resolve(specifier, context, next) {
      const { parentURL } = context
      if (parentURL === undefined || !isOurs(parentURL)) return next(specifier, context)
      if (specifier === 'node:test') return next(COLLECTOR, context)
      const found = next(specifier, context)
      if (!isOurs(found.url)) return found
      const [parent, child] = [withoutQuery(parentURL), withoutQuery(found.url)]
      imports.set(parent, (imports.get(parent) ?? new Set()).add(child))
      const query = parentURL.slice(parent.length)
      const changed = changes.get(query)
      const isKept = changed !== undefined && distance(child, pathToFileURL(changed.file).href) === Infinity
      return { ...found, url: `${child}${isKept ? queryOf({ number: changed.base, isCounting: false }) : query}` }
    },
    load(url, context, next) {
      if (!isOurs(url)) return next(url, context)
      const file = withoutQuery(url)
      const source = sources.get(file) ?? stripTypeScriptTypes(readFileSync(fileURLToPath(file), 'utf8'))
      sources.set(file, source)
      const shown = url.includes('counting') ? source : source.replace(COUNT, `${COUNT} return;`)
      return { format: 'module', source: shown, shortCircuit: true }
    },
  })

  const distance = (from: string, wanted: string): number => {
    const seen = new Set<string>()
    let level = [from]
    for (let depth = 0; level.length > 0; depth += 1) {
      if (level.includes(wanted)) return depth
      for (const url of level) seen.add(url)
      level = [...new Set(level.flatMap((url) => [...(imports.get(url) ?? [])]))].filter((url) => !seen.has(url))
    }
    return Infinity
  }

  return {
    async load(file, generation) {
      const query = queryOf(generation)
      if (generation.changed !== undefined) changes.set(query, generation.changed)
      takeCollected()
      await import(`${pathToFileURL(file).href}${query}`)
      return takeCollected()
    },
    distance: (testFile, file) => distance(pathToFileURL(testFile).href, pathToFileURL(file).href),
  }
}

function queryOf({ number, isCounting }: Generation): string {
  return `?generation=${number}${isCounting ? '&counting' : ''}`
}

function withoutQuery(url: string): string {
  return url.split('?')[0] ?? url
}
