import { randomUUID } from 'node:crypto'
import {
  close,
  constants,
  fdatasync,
  fstat,
  fsync,
  mkdirSync,
  open,
  readFile as readDescriptor,
  statSync,
  type Stats,
  writeFile as writeDescriptor,
} from 'node:fs'
import { access, mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'

/** Records are small and many, and each takes seven of these calls: a `FileHandle` of `node:fs/promises` takes two to three times the
 *  processor's time for each. */
export const descriptors = {
  open: promisify(open),
  /** Writes all bytes, with as many calls as needed. */
  write: promisify<number, Uint8Array>(writeDescriptor),
  fdatasync: promisify(fdatasync),
  fsync: promisify(fsync),
  close: promisify(close),
  stat: promisify<number, Stats>(fstat),
  read: promisify<number, Buffer>(readDescriptor),
}

/** What lies in the place of a file, or why the file cannot be one that was written there. */
export class OddFileError extends Error {
  override name = 'OddFileError'
}

/**
 * Reads a file that a program of ours wrote, in a directory where others may write too. Opening a pipe or some devices waits for another
 * process, in one of the process's four threads for files, and reading a link would show a file of another place.
 * @param maxBytes a larger file is not read
 * @throws OddFileError if the path leads to anything but a file of at most `maxBytes`; the errors of the system
 */
export async function readPlainFile(path: string, maxBytes = LARGEST_READ): Promise<Buffer> {
  const descriptor = await descriptors
    .open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
    .catch((error: unknown) => {
      if (errnoOf(error) === 'ELOOP') throw new OddFileError('it is a symbolic link')
      if (errnoOf(error) === 'ENXIO') throw new OddFileError('it is a socket')
      throw error
    })
  try {
    const found = await descriptors.stat(descriptor)
    if (found.isDirectory()) throw new OddFileError('it is a directory')
    if (!found.isFile()) throw new OddFileError(found.isFIFO() ? 'it is a pipe' : 'it is a device')
    if (found.size > maxBytes) throw new OddFileError(`it has ${found.size} bytes, of at most ${maxBytes}`)
    return await descriptors.read(descriptor)
  } finally {
    await descriptors.close(descriptor)
  }
}

/** Node refuses to read more at once. */
const LARGEST_READ = 2 ** 31 - 1

/** Readers see the old text or the new one, never a part. `mode` 0o600 keeps secrets from other users of the machine. */
export async function writeFileAtomically(path: string, content: string | Uint8Array, mode = 0o666): Promise<void> {
  await makeDirectory(dirname(path))
  const temporary = `${path}.${process.pid}.${Math.random().toString(36).slice(2, 8)}`
  try {
    await writeFile(temporary, content, { mode })
    await rename(temporary, path)
  } catch (error) {
    // On a full disk the temporary file would occupy the remaining space.
    await rm(temporary, { force: true })
    throw error
  }
}

/** Syncs a file's content, or the names in a directory, to the disk. */
export async function syncPath(path: string): Promise<void> {
  const descriptor = await descriptors.open(path, 'r')
  try {
    await descriptors.fsync(descriptor)
  } finally {
    await descriptors.close(descriptor)
  }
}

export function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
}

export function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

/** Names in a directory; none if it does not exist. @param orFile whether a file in its place has none either, instead of an error */
export async function namesIn(directory: string, { orFile = false } = {}): Promise<string[]> {
  try {
    return await readdir(directory)
  } catch (error) {
    if (errnoOf(error) === 'ENOENT' || (orFile && errnoOf(error) === 'ENOTDIR')) return []
    throw error
  }
}

/** Null if the file does not exist or is not JSON, for example after a crash during a non-atomic write. */
export async function readJson<T>(path: string): Promise<T | null> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as T
  } catch {
    return null
  }
}

/** The last lines of a log, for an error message. */
export async function tailOf(path: string, lines = 15): Promise<string> {
  const text = await readFile(path, 'utf8').catch(() => '')
  return text.trimEnd().split('\n').slice(-lines).join('\n')
}

const MAX_LOG_BYTES = 20_000_000

/**
 * Renames a log that is larger than this to `PATH.1`. Called before a process opens the log.
 *
 * @param aboveBytes 0 keeps each log that has a line
 */
export async function rotateLog(path: string, aboveBytes: number = MAX_LOG_BYTES): Promise<void> {
  await makeDirectory(dirname(path))
  const size = (await stat(path).catch(() => null))?.size ?? 0
  if (size > aboveBytes) await rename(path, `${path}.1`)
}

/** System error name, for example `ENOENT`; null for any other error. */
export function errnoOf(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return typeof code === 'string' ? code : null
}

/** Another process may remove a parent concurrently, for example when it clears a cache. It never does so this often in a row. */
const ATTEMPTS = 10

/**
 * Makes a directory and its missing parents. Node's `mkdir` with `recursive` does the same, but never returns below a directory that
 * exists and accepts no new names, such as /proc, because it takes each ENOENT for a missing parent.
 * @returns the first directory that was made, undefined where all were there
 */
export async function makeDirectory(
  path: string,
  { mode = 0o777 }: { mode?: number } = {},
): Promise<string | undefined> {
  const whole = resolve(path)
  let first: string | undefined
  for (let attempt = 1; ; attempt++) {
    try {
      await mkdir(whole, { mode })
      return first ?? whole
    } catch (error) {
      const isMissing = errnoOf(error) === 'ENOENT' && dirname(whole) !== whole && attempt < ATTEMPTS
      if (!isMissing && (await stat(whole).catch(() => null))?.isDirectory() === true) return first
      if (!isMissing) throw error
      const made = await makeDirectory(dirname(whole), { mode })
      // The parent existed: it accepts no new names.
      if (made === undefined && attempt > 1) throw error
      first ??= made
    }
  }
}

/** The synchronous variant. */
export function makeDirectorySync(path: string): void {
  const whole = resolve(path)
  for (let attempt = 1; ; attempt++) {
    try {
      mkdirSync(whole)
      return
    } catch (error) {
      const isMissing = errnoOf(error) === 'ENOENT' && dirname(whole) !== whole && attempt < ATTEMPTS
      if (!isMissing && statSync(whole, { throwIfNoEntry: false })?.isDirectory() === true) return
      if (!isMissing) throw error
      makeDirectorySync(dirname(whole))
    }
  }
}

/**
 * Milliseconds since a file was written; null for a missing file. Another machine may have written it, and its clock may differ by hours. So
 * the time now is that of a file that is written for this: one file system has dated both.
 * @param directory on the same file system
 */
export async function fileAgeMs(path: string, directory: string): Promise<number | null> {
  const file = await stat(path).catch(() => null)
  if (file === null) return null
  const probe = join(directory, `now-${randomUUID()}`)
  await writeFile(probe, '')
  try {
    return (await stat(probe)).mtimeMs - file.mtimeMs
  } finally {
    await rm(probe, { force: true })
  }
}
