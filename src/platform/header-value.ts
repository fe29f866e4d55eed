import { LonghaulError } from '../contracts/errors.ts'

/**
 * Returns a key or token that becomes a header of HTTP. Clients quote a value that no header can carry in their errors, so it is refused
 * before it reaches one. @param name of the variable or setting that holds it
 * @throws LonghaulError `Config.Invalid` without the value
 */
export function requireHeaderValue(name: string, text: string): string {
  if (/^[\x21-\x7e]+$/.test(text)) return text
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${name} to be printable characters of ASCII without spaces: a key that was read from a file may end with a line break`,
  })
}
