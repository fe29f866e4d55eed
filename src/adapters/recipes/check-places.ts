import { access } from 'node:fs/promises'
import type { RunKind } from '../../contracts/activities.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'

/** Where this worker looks for the files that recipes name. */
export interface RecipePlaces {
  findFile: (path: string) => string
  findModel: (base: string) => string
}

/**
 * Refuses a new run whose files are missing on this worker, and lists all of them. Otherwise each would be found missing later, some
 * after hours of gates.
 * @throws LonghaulError `Config.NotFound`
 */
export async function checkPlaces(recipe: Recipe, kind: RunKind, places: RecipePlaces): Promise<void> {
  const missing: string[] = []
  const look = async (key: string, named: string, path: string): Promise<void> => {
    const isThere = await access(path).then(
      () => true,
      () => false,
    )
    if (!isThere) missing.push(`${key}: ${named}${named === path ? '' : ` (looked for at ${path})`}`)
  }
  for (const [key, source] of sourcesOf(recipe, kind)) {
    if ('path' in source) await look(`${key}.path`, source.path, places.findFile(source.path))
    if ('evidence' in source && source.evidence !== null) {
      await look(`${key}.evidence`, source.evidence, places.findFile(source.evidence))
    }
  }
  if (kind === 'train') await look('model.base', recipe.model.base, places.findModel(recipe.model.base))
  if (missing.length === 0) return
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: [
      `Expected what recipe ${recipe.name} names to be on the control worker, and ${missing.length === 1 ? 'this is' : 'these are'} not there:`,
      ...missing.map((line) => `  ${line}`),
      'Put it there, or name it by an absolute path that every control worker has',
    ].join('\n'),
  })
}

/** A gate is exempt, because it reads its only suite before anything else. */
function sourcesOf({ data, evaluate }: Recipe, kind: RunKind): [string, SuiteSource][] {
  if (kind === 'gate') return []
  const further = Object.entries(evaluate.suites).map(([name, source]): [string, SuiteSource] => [
    `evaluate.suites.${name}`,
    source,
  ])
  const evaluated: [string, SuiteSource][] = [['data.heldOut', data.heldOut], ...further]
  return kind === 'train' ? [['data.train', data.train], ...evaluated] : evaluated
}
