import { link, mkdir, open, readdir, readFile, unlink } from 'node:fs/promises'
import { mkdirSync } from 'node:fs'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { boundStore, STORE_ANSWER_MS } from './bound-store.ts'
import { corrupt, openRecord, sealRecord } from './record-text.ts'
import { errnoOf } from '../../platform/errno.ts'
import { sweepTempFiles, writeTempFile } from '../../platform/temp-files.ts'
import { sha256Hex } from '../../platform/hash.ts'

interface DirectoryStoreOptions {
  /** Created when absent. Needs hard links, which every local Unix file system and NFS have. */
  root: string
  /** After this long without an answer an operation fails with `Artifact.Unavailable`. @default 45_000 */
  answerMs?: number
}

/**
 * Artifacts as plain files. A put writes a temporary file, syncs it, links it to its name (the only create-if-absent that
 * never shows half a file, even over NFS) and syncs the directory, in that order: what was acknowledged survives a power cut.
 * @throws LonghaulError `Artifact.Unavailable` when the root cannot be created
 */
export function createDirectoryStore({
  root: givenRoot,
  answerMs = STORE_ANSWER_MS,
}: DirectoryStoreOptions): ArtifactStore {
  const root = resolve(givenRoot)
  const temp = join(root, TEMP_DIRECTORY)
  try {
    mkdirSync(temp, { recursive: true })
  } catch (error) {
    throw asStoreError(error, root)
  }
  // Once per store and in the background: a temporary file left behind costs disk, never correctness.
  void sweepTempFiles(temp, Date.now()).catch(() => undefined)

  const pathOf = (key: string): string => join(root, checkKey(key))

  const put = async (key: string, bytes: Uint8Array): Promise<ArtifactRef> => {
    const path = pathOf(key)
    const ref = { key, sha256: sha256Hex(bytes), bytes: bytes.byteLength }
    try {
      const won = await linkNew({ temp, path, bytes })
      if (won) return ref
      const stored = await readFile(path)
      if (sha256Hex(stored) === ref.sha256) return ref
      throw conflict(ref, stored)
    } catch (error) {
      throw asStoreError(error, key)
    }
  }

  const read = async (key: string): Promise<Buffer | null> => {
    const path = pathOf(key)
    try {
      return await readFile(path)
    } catch (error) {
      if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null
      throw asStoreError(error, key)
    }
  }

  const readRecord = async <T extends object>(key: string): Promise<T | null> => {
    const bytes = await read(key)
    return bytes === null ? null : openRecord<T>(key, bytes)
  }

  const store: ArtifactStore = {
    put,
    read,
    readRecord,
    async get(ref) {
      const bytes = await read(ref.key)
      if (bytes === null) throw missingArtifact(ref.key)
      if (bytes.byteLength !== ref.bytes)
        throw corrupt(ref.key, `expected ${ref.bytes} bytes, found ${bytes.byteLength}`)
      if (sha256Hex(bytes) !== ref.sha256) throw corrupt(ref.key, 'content differs from the reference')
      return bytes
    },
    putRecord: (key, record) => put(key, sealRecord(record)),
    async claimRecord<T extends object>(key: string, record: T) {
      const bytes = sealRecord(record)
      try {
        if (await linkNew({ temp, path: pathOf(key), bytes })) return { record: openRecord<T>(key, bytes), won: true }
      } catch (error) {
        throw asStoreError(error, key)
      }
      const stored = await readRecord<T>(key)
      if (stored === null) throw missingArtifact(key)
      return { record: stored, won: false }
    },
    async list(prefix) {
      if (prefix !== '') checkKey(prefix.replace(/\/$/, ''))
      const from = prefix.slice(0, prefix.lastIndexOf('/') + 1)
      try {
        return (await keysBelow(root, from)).filter((key) => key.startsWith(prefix)).sort()
      } catch (error) {
        throw asStoreError(error, prefix)
      }
    },
    path: pathOf,
    uri: (key) => pathToFileURL(pathOf(key)).href,
  }
  return boundStore({ store, name: root, answerMs })
}

/** False when the name is taken; its directory is synced even then, because the winner may have died before doing it. */
async function linkNew({ temp, path, bytes }: { temp: string; path: string; bytes: Uint8Array }): Promise<boolean> {
  const file = await writeTempFile(temp, bytes)
  try {
    const won = await linkIfAbsent(file, path)
    await syncDirectory(dirname(path))
    return won
  } finally {
    await unlink(file).catch(() => undefined)
  }
}

async function linkIfAbsent(file: string, path: string): Promise<boolean> {
  for (let mayCreateDirectory = true; ; mayCreateDirectory = false) {
    try {
      await link(file, path)
      return true
    } catch (error) {
      if (errnoOf(error) === 'EEXIST') return false
      if (errnoOf(error) !== 'ENOENT' || !mayCreateDirectory) throw error
      await createDirectory(dirname(path))
    }
  }
}

/** Each new directory is an entry in its parent, and that entry must survive a power cut too. */
async function createDirectory(directory: string): Promise<void> {
  const firstCreated = await mkdir(directory, { recursive: true })
  if (firstCreated === undefined) return
  for (let path = directory; path.length >= firstCreated.length; path = dirname(path))
    await syncDirectory(dirname(path))
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

async function keysBelow(root: string, directory: string): Promise<string[]> {
  const keys: string[] = []
  for (const entry of await readEntries(join(root, directory))) {
    const key = `${directory}${entry.name}`
    if (key === TEMP_DIRECTORY) continue
    if (entry.isDirectory()) keys.push(...(await keysBelow(root, `${key}/`)))
    else keys.push(key)
  }
  return keys
}

async function readEntries(path: string) {
  try {
    return await readdir(path, { withFileTypes: true })
  } catch (error) {
    // Absent, or removed while being walked: there is nothing below it.
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return []
    throw error
  }
}

function conflict(ref: ArtifactRef, stored: Uint8Array): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Conflict',
    message: 'Expected the same bytes under a key that is already taken, got others',
    details: { key: ref.key, ours: ref.sha256, stored: sha256Hex(stored), storedBytes: stored.byteLength },
  })
}

function missingArtifact(key: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected a stored artifact, found none',
    details: { key },
  })
}

/** A full disk has a code of its own. Read-only mount, I/O error, no permission, no descriptors: all may pass once an operator acts, so all are retryable. */
export function asStoreError(error: unknown, key: string): LonghaulError {
  if (isLonghaulError(error)) return error
  const errno = errnoOf(error)
  if (errno === 'ENOENT') return missingArtifact(key)
  if (errno === 'ENOSPC' || errno === 'EDQUOT') {
    return new LonghaulError({
      code: 'Artifact.OutOfDisk',
      message: 'Expected room in the artifact store, its disk is full',
      details: { key, errno },
      cause: error,
    })
  }
  return new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected the artifact store to accept an operation, got ${errno ?? String(error)}`,
    details: { key, errno },
    cause: error,
  })
}

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
