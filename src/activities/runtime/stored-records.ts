import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import { suiteKeys, runKeys, gateKeys } from '../../contracts/keys.ts'
import type { SuiteManifest, Task } from '../../contracts/tasks.types.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'

export type TaskReader = (input: { suite: string; taskId: string }) => Promise<Task>
export type SuiteReader = (suite: string) => Promise<SuiteManifest>

/** Tasks and suites are immutable and addressed by hash, so a worker reads each once. */
export function createTaskReader(store: ArtifactStore): TaskReader {
  const cache = new Map<string, Task>()
  return async ({ suite, taskId }) => {
    const key = suiteKeys.task(suite, taskId)
    const known = cache.get(key)
    if (known !== undefined) return known
    const task = await readOrThrow<Task>(store, key)
    cache.set(key, task)
    return task
  }
}

export function createSuiteReader(store: ArtifactStore): SuiteReader {
  const cache = new Map<string, SuiteManifest>()
  return async (suite) => {
    const known = cache.get(suite)
    if (known !== undefined) return known
    const manifest = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(suite))
    cache.set(suite, manifest)
    return manifest
  }
}

export async function readOrThrow<T extends object>(store: ArtifactStore, key: string): Promise<T> {
  const record = await store.readRecord<T>(key)
  if (record !== null) return record
  throw new LonghaulError({ code: 'Artifact.Missing', message: 'Expected a stored record', details: { key } })
}

/** The resolved recipe of a run, as `resolveRecipe` stored it. */
export interface StoredRecipe {
  schema: 'longhaul.recipe/1'
  /** SHA-256 of the resolved recipe's canonical JSON. */
  hash: string
  recipe: Recipe
}

export type RecipeReader = (run: string) => Promise<Recipe>

/** Recipes are immutable once stored, so a worker reads each once. */
export function createRecipeReader(store: ArtifactStore): RecipeReader {
  const cache = new Map<string, Recipe>()
  return async (run) => {
    const known = cache.get(run)
    if (known !== undefined) return known
    const stored = await store.readRecord<StoredRecipe>(runKeys.recipe(run))
    if (stored === null) {
      throw new LonghaulError({ code: 'Artifact.Missing', message: 'The run has no stored recipe', details: { run } })
    }
    cache.set(run, stored.recipe)
    return stored.recipe
  }
}

/**
 * A record of an episode that is lost anyway, null where it is torn or absent: what excluded the episode must not end the run as
 * well. Episodes that count are read strictly.
 */
export async function readIfWhole<T extends object>(
  store: Pick<ArtifactStore, 'readRecord'>,
  key: string,
): Promise<T | null> {
  try {
    return await store.readRecord<T>(key)
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Corrupt') return null
    throw error
  }
}

/** Gated lists are immutable, and every episode asks. */
const known = new WeakMap<ArtifactStore, Map<string, GatedSuite>>()

/** The image that the task's gate ran in: what an episode plays and is graded in must be the same bytes on every host. */
export async function gatedDigest(
  store: ArtifactStore,
  { run, suite, taskId }: { run: string; suite: string; taskId: string },
): Promise<{ expectedDigest?: string }> {
  const expectedDigest = (await gatedSuite(store, run, suite))?.digests[taskId]
  return expectedDigest === undefined ? {} : { expectedDigest }
}

async function gatedSuite(store: ArtifactStore, run: string, suite: string): Promise<GatedSuite | null> {
  const key = gateKeys.gated(run, suite)
  const cache = known.get(store) ?? new Map<string, GatedSuite>()
  known.set(store, cache)
  const cached = cache.get(key)
  if (cached !== undefined) return cached
  const gated = await store.readRecord<GatedSuite>(key)
  if (gated !== null) cache.set(key, gated)
  return gated
}
