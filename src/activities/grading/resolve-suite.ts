import { basename } from 'node:path'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { suiteKeys } from '../../contracts/keys.ts'
import type { SuiteManifest, SuiteSource } from '../../contracts/tasks.types.ts'
import { originOf } from '../../domain/gates/suite-origin.ts'
import { isSha256Hex } from '../../platform/hash.ts'
import type { TaskLoader } from '../evaluation/prepare-suite.ts'
import { type RecipeLoader, suiteName } from '../run/resolve-recipe.ts'
import { storeSuite } from '../evaluation/suite-origin.ts'

export interface SuiteDependencies {
  store: ArtifactStore
  loadRecipe: RecipeLoader
  loadTasks: TaskLoader
}

export interface ResolvedSuite {
  manifest: SuiteManifest
  /** Name of the recipe that named the suite; null for other arguments. */
  recipe: string | null
}

/**
 * Resolves a `--suite` argument to stored tasks: the hash of a stored suite, a file of rows as written by `longhaul tasks import`, or
 * `RECIPE:train` or `RECIPE:heldOut` (`RECIPE` alone means its held-out tasks). A recipe's suite is complete: neither filters nor the
 * number of evaluated tasks reduce it.
 * @throws LonghaulError `Config.NotFound`, `Config.Invalid`, `Task.Invalid`
 */
export async function resolveSuite(deps: SuiteDependencies, text: string): Promise<ResolvedSuite> {
  if (isSha256Hex(text)) {
    const manifest = await deps.store.readRecord<SuiteManifest>(suiteKeys.manifest(text))
    if (manifest !== null) return { manifest, recipe: null }
    throw new LonghaulError({ code: 'Config.NotFound', message: `No suite with the hash ${text} is stored` })
  }
  if (/\.jsonl?$/.test(text)) {
    const source = { kind: 'rows', path: text, limit: null } as const
    return { manifest: await storeLoaded(deps, basename(text), source), recipe: null }
  }
  const found = /^([A-Za-z0-9._-]+)(?::(train|heldOut))?$/.exec(text)
  if (found?.[1] === undefined) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected a suite: a file of rows .jsonl or .json, RECIPE:train, RECIPE:heldOut or the hash of a stored one; got ${JSON.stringify(text)}`,
    })
  }
  const which = found[2] === 'train' ? 'train' : 'heldOut'
  const { recipe } = await deps.loadRecipe({ name: found[1] })
  const source = recipe.data[which]
  return { manifest: await storeLoaded(deps, suiteName(recipe, which), source), recipe: found[1] }
}

async function storeLoaded(deps: SuiteDependencies, name: string, source: SuiteSource): Promise<SuiteManifest> {
  const { tasks, file, source: read = source } = await deps.loadTasks(source)
  const origin = originOf({ source: read, imported: null, file, curation: undefined })
  return storeSuite(deps.store, { name, source: read, tasks, origin })
}
