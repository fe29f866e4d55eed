import { LonghaulError } from '../../contracts/errors.ts'

/** @throws LonghaulError `Config.Invalid` for a name that could leave a folder of recipes */
export function requireRecipeName(name: string, hint = ''): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$/.test(name)) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the name of a recipe (letters, digits, ".", "_", "-"), got ${JSON.stringify(name.slice(0, 100))}${hint}`,
  })
}
