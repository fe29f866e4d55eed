import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { nearestName } from './nearest-name.ts'

const EXTENSION = '.yaml'

/**
 * A recipe by name: the first of `dirs` that has `<name>.yaml`.
 * @throws LonghaulError `Config.NotFound` with the names there are, `Config.Invalid` for a name that could leave the directory
 */
export async function findRecipe({
  name,
  dirs,
}: {
  name: string
  dirs: readonly string[]
}): Promise<{ text: string; path: string }> {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/.test(name)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected the name of a recipe (letters, digits, ".", "_", "-"), got ${JSON.stringify(name)}`,
    })
  }
  for (const dir of dirs) {
    const path = join(dir, `${name}${EXTENSION}`)
    const text = await readFile(path, 'utf8').catch(notThere)
    if (text !== null) return { text, path }
  }
  const names = await recipeNames(dirs)
  const near = nearestName(name, names)
  throw new LonghaulError({
    code: 'Config.NotFound',
    message:
      `No recipe is called ${JSON.stringify(name)}${near === null ? '' : `; did you mean ${near}?`} ` +
      `Known recipes: ${names.join(', ') || 'none'} (in ${dirs.join(', ') || 'no directory'})`,
  })
}

export async function recipeNames(dirs: readonly string[]): Promise<string[]> {
  const listed = await Promise.all(dirs.map((dir) => readdir(dir).catch(() => [])))
  const names = listed.flat().filter((file) => file.endsWith(EXTENSION))
  return [...new Set(names.map((file) => file.slice(0, -EXTENSION.length)))].toSorted()
}

function notThere(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected to read the recipe, got ${error.message}`,
    cause: error,
  })
}
