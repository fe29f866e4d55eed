import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'

/** `infra/` lies beside `src/` in a checkout and beside `dist/` in the package: the same three steps up. */
const RECIPE_FILE = new URL('../../../../infra/images/debian-base/recipe.json', import.meta.url)

/** What the base image is made of; its hash is the image's tag, so a change makes a new image. */
export interface BaseImageRecipe {
  suite: string
  variant: string
  packages: string[]
  /** Globs below the root that are emptied after the installation. */
  remove: string[]
  directories: string[]
  /** Raised by hand where the build script itself changes the result. */
  revision: number
}

export interface BaseImageIdentity {
  recipe: BaseImageRecipe
  hash: string
  tag: string
}

export async function readBaseImageRecipe(): Promise<BaseImageIdentity> {
  const recipe = JSON.parse(await readFile(RECIPE_FILE, 'utf8')) as BaseImageRecipe
  const hash = createHash('sha256').update(JSON.stringify(recipe)).digest('hex').slice(0, 12)
  return { recipe, hash, tag: `longhaul/debian-base:${hash}` }
}
