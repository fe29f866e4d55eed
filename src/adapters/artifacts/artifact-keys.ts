import { isAbsolute } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'

/** Half-written files live here: same file system as the keys, never listed. */
export const TEMP_DIRECTORY = '.tmp'

/** The usual limit of a file name; longer ones would fail half-way through a write. */
const MAX_SEGMENT_BYTES = 255

/** Keys become paths, and some of their parts come from data sets: nothing may point outside the store.
 *  @throws LonghaulError `Config.Invalid` */
export function checkKey(key: string): string {
  const fault = keyFault(key)
  if (fault === null) return key
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected an artifact key of relative segments, got one that ${fault}`,
    details: { key: JSON.stringify(key.slice(0, 300)) },
  })
}

function keyFault(key: string): string | null {
  if (key === '') return 'is empty'
  if (isAbsolute(key)) return 'is absolute'
  if (key.includes('\\')) return 'holds a backslash'
  if (/\p{Cc}/u.test(key)) return 'holds a control character'
  const segments = key.split('/')
  if (segments.some((segment) => segment === '')) return 'holds an empty segment'
  if (segments.some((segment) => segment === '.' || segment === '..')) return 'points outside'
  if (segments.some((segment) => Buffer.byteLength(segment) > MAX_SEGMENT_BYTES))
    return 'holds a segment over 255 bytes'
  if (segments[0] === TEMP_DIRECTORY) return 'names the store’s own temporary directory'
  return null
}

/** A folder is named with its slash: `runs/a` without it would mean `runs/ab` too. @throws LonghaulError `Config.Invalid` */
export function checkFolder(folder: string): string {
  if (folder.endsWith('/')) return `${checkKey(folder.slice(0, -1))}/`
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected the prefix of a folder to end with a slash',
    details: { folder: JSON.stringify(folder.slice(0, 300)) },
  })
}

/** Any beginning of a key, also in the middle of a segment; empty for all. @throws LonghaulError `Config.Invalid` */
export function checkPrefix(prefix: string): string {
  if (prefix !== '') checkKey(prefix.replace(/\/$/, ''))
  return prefix
}

/** Keys of a page of a listing: what S3 gives at most. */
export const PAGE_KEYS = 1_000
