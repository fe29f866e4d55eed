import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { recipeKeys } from '../../contracts/keys.ts'
import { requireRecipeName } from './recipe-name.ts'

/** A recipe that was pushed under a name: the same text on every control worker, for ever. */
interface PushedRecipe {
  schema: 'longhaul.pushed-recipe/1'
  name: string
  text: string
}

/** Where names that no folder of a worker has are looked up. */
export interface PushedRecipes {
  read(name: string): Promise<string | null>
  names(): Promise<string[]>
}

export function pushedRecipes(store: ArtifactStore): PushedRecipes {
  return {
    read: async (name) => (await store.readRecord<PushedRecipe>(recipeKeys.pushed(name)))?.text ?? null,
    names: async () => (await store.list(recipeKeys.allPushed)).map(recipeKeys.nameOf),
  }
}

/**
 * Stores a checked recipe under a name. A name means one text: a run, a schedule and a report that name it mean the same for ever.
 * @returns whether it was stored now; false where the same text was pushed before
 * @throws LonghaulError `Config.Invalid` for a name that another text or a built-in recipe has
 */
export async function pushRecipe(
  store: ArtifactStore,
  input: { name: string; text: string; builtIn: readonly string[]; dryRun?: boolean },
): Promise<{ changed: boolean; key: string }> {
  const { name, text, builtIn, dryRun = false } = input
  requireRecipeName(name)
  if (builtIn.includes(name)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `A built-in recipe is called ${name}. Push this one under another name: --name my-${name}`,
    })
  }
  const key = recipeKeys.pushed(name)
  const recipe: PushedRecipe = { schema: 'longhaul.pushed-recipe/1', name, text }
  const { record, won } = dryRun
    ? { record: (await store.readRecord<PushedRecipe>(key)) ?? recipe, won: (await store.read(key)) === null }
    : await store.claimRecord<PushedRecipe>(key, recipe)
  if (record.text === text) return { changed: won, key }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Another recipe was pushed as ${name}, and a pushed recipe never changes. Push this one under another name: --name ${name}-2`,
  })
}
