import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { recipeKeys } from '../../contracts/keys.ts'
import type { PushedRecipe } from '../../contracts/run-records.types.ts'

/** Where names are looked up that no folder of a worker has. */
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
 * Stores a checked recipe under a name. A name permanently means one text, so that runs, schedules and reports that name it stay valid.
 * @returns whether it was stored now; false if the same text was pushed before
 * @throws LonghaulError `Config.Invalid` for a name that belongs to another text or to a built-in recipe
 */
export async function pushRecipe(
  store: ArtifactStore,
  input: { name: string; text: string; builtIn: readonly string[]; dryRun?: boolean },
): Promise<{ changed: boolean; key: string }> {
  const { name, text, builtIn, dryRun = false } = input
  requireRecipeName(name, ': give it one with --name')
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

/** @throws LonghaulError `Config.Invalid` for a name that could leave a folder of recipes */
export function requireRecipeName(name: string, hint = ''): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/.test(name)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the name of a recipe (letters, digits, ".", "_", "-"), got ${JSON.stringify(name.slice(0, 100))}${hint}`,
  })
}
