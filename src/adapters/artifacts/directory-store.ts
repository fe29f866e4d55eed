import { link, readdir, readFile, rm, unlink } from 'node:fs/promises'
import { constants } from 'node:buffer'
import { statSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { pathToFileURL, fileURLToPath } from 'node:url'
import type { ArtifactRef, ArtifactStore, WeightStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import {
  checkFolder,
  checkKey,
  checkPrefix,
  corrupt,
  PAGE_KEYS,
  TEMP_DIRECTORY,
  openRecord,
  sealRecord,
  conflict,
  missingArtifact,
  requireReferenced,
  wrapStore,
} from './store-rules.ts'
import {
  errnoOf,
  makeDirectory,
  makeDirectorySync,
  OddFileError,
  readPlainFile,
  syncPath,
} from '../../platform/files.ts'
import { sweepTempFiles, writeTempFile } from '../../platform/temp-files.ts'
import { sha256Hex } from '../../platform/hash.ts'

interface DirectoryStoreOptions {
  /** Needs hard links, which every local Unix file system and NFS have. */
  root: string
  /** An operation without an answer fails with `Artifact.Unavailable` after this time. @default 45_000 */
  answerMs?: number
  /** If false, nothing is created until the first put: an archive may be read-only, and reading a mistyped path creates no store. @default true */
  checksWriting?: boolean
}

/**
 * Stores artifacts as plain files. A put writes a temporary file, syncs it, links it to its name and syncs the directory, in that
 * order, so that an acknowledged put survives a power cut. The link is the only create-if-absent that never exposes half a file, even
 * over NFS.
 * @throws LonghaulError `Config.Invalid` for a root that no retry can create, `Artifact.Unavailable` if it cannot be created now
 */
export function createDirectoryStore({
  root: givenRoot,
  answerMs = STORE_ANSWER_MS,
  checksWriting = true,
}: DirectoryStoreOptions): ArtifactStore {
  const root = resolve(givenRoot)
  const temp = join(root, TEMP_DIRECTORY)
  if (checksWriting) {
    try {
      makeDirectorySync(temp)
    } catch (error) {
      throw asRootError(error, root)
    }
    // Once per store and in the background, because a leftover temporary file costs disk space and never correctness.
    void sweepTempFiles(temp, Date.now()).catch(() => undefined)
  }

  const pathOf = (key: string): string => join(root, checkKey(key))

  const put = async (key: string, bytes: Uint8Array): Promise<ArtifactRef> => {
    const path = pathOf(key)
    const ref = { key, sha256: sha256Hex(bytes), bytes: bytes.byteLength }
    try {
      const won = await linkNew({ temp, path, bytes })
      if (won) return ref
      const stored = await readPlainFile(path)
      if (sha256Hex(stored) === ref.sha256) return ref
      throw conflict(ref, stored)
    } catch (error) {
      throw asStoreError(error, key)
    }
  }

  const read = async (key: string, maxBytes?: number): Promise<Buffer | null> => {
    const path = pathOf(key)
    try {
      return await readPlainFile(path, maxBytes)
    } catch (error) {
      if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return null
      throw asStoreError(error, key)
    }
  }

  const readRecord = async <T extends object>(key: string): Promise<T | null> => {
    const bytes = await read(key, MOST_RECORD_BYTES)
    return bytes === null ? null : openRecord<T>(key, bytes)
  }

  const store: ArtifactStore = {
    put,
    read: (key) => read(key),
    readRecord,
    async get(ref) {
      return requireReferenced(ref, await read(ref.key, ref.bytes))
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
      checkPrefix(prefix)
      try {
        const keys: string[] = []
        for await (const key of keysBelow({ root, prefix, after: '' })) keys.push(key)
        return keys
      } catch (error) {
        throw asStoreError(error, prefix)
      }
    },
    async listPage({ prefix, after = '', limit = PAGE_KEYS }) {
      checkPrefix(prefix)
      const keys: string[] = []
      try {
        for await (const key of keysBelow({ root, prefix, after })) {
          if (keys.length === limit) return { keys, next: keys.at(-1) ?? null }
          keys.push(key)
        }
      } catch (error) {
        throw asStoreError(error, prefix)
      }
      return { keys, next: null }
    },
    async folders(folder) {
      const path = join(root, checkFolder(folder))
      try {
        return (await readEntries(path)).flatMap((entry) => (entry.isDirectory() ? [entry.name] : [])).sort()
      } catch (error) {
        throw asStoreError(error, folder)
      }
    },
    async removeFolder(folder) {
      const path = join(root, checkFolder(folder))
      try {
        let removed = 0
        for await (const _ of keysBelow({ root, prefix: folder, after: '' })) removed += 1
        await rm(path, { recursive: true, force: true })
        return removed
      } catch (error) {
        throw asStoreError(error, folder)
      }
    },
    locate: pathOf,
    path: pathOf,
    uri: (key) => pathToFileURL(pathOf(key)).href,
    weights: directoryWeights,
  }
  return boundStore({ store, name: root, answerMs })
}

/** A record was one text when it was written. */
const MOST_RECORD_BYTES = constants.MAX_STRING_LENGTH

/** Returns false if the name is taken. The directory is synced even then, because the winner may have died before syncing it. */
async function linkNew({ temp, path, bytes }: { temp: string; path: string; bytes: Uint8Array }): Promise<boolean> {
  const file = await writeTempFile(temp, bytes).catch(async (error: unknown) => {
    if (errnoOf(error) !== 'ENOENT' && errnoOf(error) !== 'ENOTDIR') throw error
    // A store that was opened for reading has no temporary directory yet.
    await makeDirectory(temp).catch((cause: unknown) => {
      throw asRootError(cause, dirname(temp))
    })
    return writeTempFile(temp, bytes)
  })
  try {
    const won = await linkIfAbsent(file, path)
    await syncPath(dirname(path))
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

/** Syncs the parent of each new directory, because its entry must survive a power cut too. */
async function createDirectory(directory: string): Promise<void> {
  const firstCreated = await makeDirectory(directory)
  if (firstCreated === undefined) return
  for (let path = directory; path.length >= firstCreated.length; path = dirname(path)) await syncPath(dirname(path))
}

interface KeysBelowInput {
  root: string
  prefix: string
  /** Only keys after this one are returned. */
  after: string
}

/** Yields keys in order, holding one directory of each level in memory. A directory sorts by its name with a slash, as its keys do. */
async function* keysBelow({ root, prefix, after }: KeysBelowInput): AsyncGenerator<string> {
  async function* walk(directory: string): AsyncGenerator<string> {
    const names = (await readEntries(join(root, directory)))
      .map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name))
      .sort()
    for (const name of names) {
      const key = `${directory}${name}`
      if (key === `${TEMP_DIRECTORY}/`) continue
      const mayHold = key.startsWith(prefix) || prefix.startsWith(key)
      if (!mayHold) continue
      if (!name.endsWith('/')) {
        if (key.startsWith(prefix) && key > after) yield key
      } else if (after < key || after.startsWith(key)) yield* walk(key)
    }
  }
  yield* walk(prefix.slice(0, prefix.lastIndexOf('/') + 1))
}

async function readEntries(path: string) {
  try {
    return await readdir(path, { withFileTypes: true })
  } catch (error) {
    // Absent, or removed during the walk: it has no keys.
    if (errnoOf(error) === 'ENOENT' || errnoOf(error) === 'ENOTDIR') return []
    throw error
  }
}

/** Checks the directory for a command that only reads. @throws LonghaulError `Config.NotFound`; `Artifact.Unavailable` if this user may not enter a directory above it */
export function requireDirectoryStore(givenRoot: string): void {
  const root = resolve(givenRoot)
  try {
    if (statSync(root, { throwIfNoEntry: false })?.isDirectory() === true) return
  } catch (error) {
    throw asRootError(error, root)
  }
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `No artifact store is at ${root}: longhaul up and workers create one; set LONGHAUL_ARTIFACTS to use another store`,
  })
}

/** A path through a file, or into a file system where we may not create directories, never becomes valid; other errors may pass. */
function asRootError(error: unknown, root: string): LonghaulError {
  const errno = errnoOf(error)
  if (errno !== 'ENOTDIR' && errno !== 'EEXIST' && errno !== 'ENOENT') return asStoreError(error, root)
  return new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected the artifact store to be a directory that can be made, got ${root} (${errno}); set LONGHAUL_ARTIFACTS to use another store`,
    cause: error,
  })
}

/** Maps an error of the file system. A full disk has its own code. All errors are retryable: a read-only mount, an I/O error,
 *  missing permission or descriptors may pass once an operator acts. */
export function asStoreError(error: unknown, key: string): LonghaulError {
  if (isLonghaulError(error)) return error
  if (error instanceof OddFileError) return corrupt(key, error.message, error)
  const errno = errnoOf(error)
  if (errno === 'ENOENT') return missingArtifact(key)
  if (errno === 'ENOSPC' || errno === 'EDQUOT') {
    return new LonghaulError({
      code: 'Artifact.OutOfDisk',
      message: 'Expected room in the artifact store, but its disk is full',
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

/**
 * The largest object of a store is a batch: a gigabyte at 25 MB/s. Less than the minute of short bookkeeping activities, so that these
 * fail with the store's name and not with a bare time-out.
 */
export const STORE_ANSWER_MS = 45_000

/**
 * Bounds every wait for a store, because a dead network mount or a stuck disk blocks file calls forever and they cannot be cancelled.
 * If such a call completes later, it does no harm, because keys are put if absent.
 */
export function boundStore({
  store,
  name,
  answerMs = STORE_ANSWER_MS,
}: {
  store: ArtifactStore
  /** Used in the message. */
  name: string
  answerMs?: number
}): ArtifactStore {
  return wrapStore(store, async ({ doing, key }, work) => {
    // Unbounded: a run of 10,000 episodes has a million keys.
    if (doing === 'removing') return work()
    const { promise: late, reject } = Promise.withResolvers<never>()
    const timer = setTimeout(() => reject(overdue({ name, key, answerMs })), answerMs)
    try {
      return await Promise.race([work(), late])
    } finally {
      clearTimeout(timer)
    }
  })
}

function overdue({ name, key, answerMs }: { name: string; key: string; answerMs: number }): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected the artifact store to answer within ${answerMs / 1000} s. Look at its disk or mount`,
    details: { store: name, key },
  })
}

/** Every machine sees the directory, so weights stay where the trainer writes them. */
export const directoryWeights: WeightStore = {
  local: (policy) => policy,
  async readFile({ policy: { uri, checkpointUri }, part, name }) {
    const directory = part === 'policy' ? uri : checkpointUri
    // The uri of a chat endpoint is an address and not a directory.
    if (directory === null || !directory.startsWith('file:')) return null
    try {
      return await readFile(join(fileURLToPath(directory), name))
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return null
      throw error
    }
  },
  kept: async () => null,
  keep: async ({ policy }) => policy,
  use: (_, work) => work(),
  bringFile: async () => {},
  requireSeenBy: () => {},
}
