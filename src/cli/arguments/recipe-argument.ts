import { basename, extname } from 'node:path'
import { parse, stringify } from 'yaml'
import { loadRecipe, type LoadedRecipe, readRecipeFile } from '../../adapters/recipes/load-recipe.ts'
import { type PushedRecipes, pushedRecipes } from '../../adapters/recipes/pushed-recipes.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { packageFile } from '../../stack/paths.ts'
import { openStoreIfThere } from '../local-stack.ts'

export interface RecipeOptions {
  recipe: string
  seed?: number
  /** `key.path=value`, in order. */
  set?: string[]
  /** Overridden by `seed` and `set`. */
  overrides?: Record<string, unknown>
}

export interface RecipeArgument {
  loaded: LoadedRecipe
  /** Input of a workflow: a name that workers know, or the text of a file. */
  request: { recipe: string; recipeText?: string; overrides?: Record<string, unknown> }
}

/** Reads and checks a recipe here, so that a mistake costs no run. @throws LonghaulError `Config.Invalid`, `Config.NotFound` */
export async function readRecipeArgument({
  recipe,
  seed,
  set = [],
  overrides: under = {},
}: RecipeOptions): Promise<RecipeArgument> {
  const overrides = parseSettings(set, seed, under)
  const hasOverrides = Object.keys(overrides).length > 0
  const given = hasOverrides ? { overrides } : {}
  if (!isFile(recipe)) {
    const pushed = {
      read: async (name: string) => (await stored()).read(name),
      names: async () => (await stored()).names(),
    }
    const loaded = await loadRecipe({ name: recipe, dirs: recipeDirs(), pushed, ...given })
    return { loaded, request: { recipe, ...given } }
  }
  const name = basename(recipe, extname(recipe))
  const text = await readRecipeFile(recipe)
  const loaded = await loadRecipe({ name, text, ...given })
  // Without comments, to keep histories small.
  return { loaded, request: { recipe: name, recipeText: stringify(parse(text)), ...given } }
}

/** Opens the store only for names that no local folder has. Without a store, nothing was pushed to it. */
async function stored(): Promise<PushedRecipes> {
  const store = await openStoreIfThere()
  return store === null ? { read: async () => null, names: async () => [] } : pushedRecipes(store)
}

/** Directories of LONGHAUL_RECIPES, then the package's own: the order that workers use. */
export function recipeDirs(env: NodeJS.ProcessEnv = process.env): string[] {
  return [...(env['LONGHAUL_RECIPES'] ?? '').split(':').filter((dir) => dir !== ''), packageFile('recipes')]
}

/** `rft.tasks=4` → `{ rft: { tasks: 4 } }`; values are YAML. */
export function parseSettings(
  settings: readonly string[],
  seed?: number,
  under: Record<string, unknown> = {},
): Record<string, unknown> {
  const overrides: Record<string, unknown> = { ...structuredClone(under), ...(seed === undefined ? {} : { seed }) }
  for (const setting of settings) {
    const at = setting.indexOf('=')
    const path = setting.slice(0, at).split('.')
    if (at < 1 || path.some((key) => !/^[A-Za-z][A-Za-z0-9]*$/.test(key))) {
      throw new LonghaulError({
        code: 'Config.Invalid',
        message:
          `Expected -c key.path=value such as -c rft.tasks=4, got ${JSON.stringify(setting)}` +
          (path.some((key) => /^\d|\[/.test(key)) ? '; an item of a list has no path, so give the whole list' : ''),
      })
    }
    let here = overrides
    for (const key of path.slice(0, -1)) {
      const next = here[key]
      const child = typeof next === 'object' && next !== null ? (next as Record<string, unknown>) : {}
      here[key] = child
      here = child
    }
    here[path.at(-1) ?? ''] = parseValue(setting, at)
  }
  return overrides
}

function parseValue(setting: string, at: number): unknown {
  try {
    // The check of the recipe reports what a warning would.
    return parse(setting.slice(at + 1), { logLevel: 'error' })
  } catch (cause) {
    const [why = ''] = (cause instanceof Error ? cause.message : String(cause)).split(/:?\n/)
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected YAML after the = of -c ${JSON.stringify(setting)}, got this: ${why}`,
      cause,
    })
  }
}

function isFile(recipe: string): boolean {
  return recipe.includes('/') || /\.ya?ml$/.test(recipe)
}
