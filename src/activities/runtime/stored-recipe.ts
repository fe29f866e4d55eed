import { LonghaulError } from '../../contracts/errors.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'

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
