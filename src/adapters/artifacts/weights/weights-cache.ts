/** A cache of directories that can be downloaded again. It evicts the least recently used ones, and none that is in use. */
import { open, rename, rm, stat, utimes } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { LonghaulError } from '../../../contracts/errors.ts'
import { withDirectoryLock } from '../../../platform/directory-lock.ts'
import { errnoOf, exists, makeDirectory, namesIn } from '../../../platform/files.ts'
import { sweepTempFiles, tempName } from '../../../platform/temp-files.ts'
import { createKeyedQueue, createSlots } from '../../../platform/limiter.ts'
import { TEMP_DIRECTORY } from '../store-rules.ts'

export interface WeightsPlace {
  /** Created on first use. Each store has its own. */
  directory: string
  /** Limit of all directories together. Directories in use are kept even beyond it. */
  limitBytes: number
  /** A user without a sign of life for this long counts as dead. @default ten minutes */
  leaseMs?: number
}

export interface BringInput {
  key: string
  bytes: number
  isWhole(directory: string): Promise<boolean>
  /** Writes the content into an existing empty directory. */
  fill(directory: string): Promise<void>
}

export interface WeightsCache {
  path(key: string): string
  /** Keeps the directories of these keys until the work ends, and for `afterMs` after it. */
  hold<T>(input: { keys: readonly string[]; afterMs?: number }, work: () => Promise<T>): Promise<T>
  /** May only be called while the key is held. */
  bring(input: BringInput): Promise<void>
  /** Evicts the least recently used directories until `bytes` more fit. */
  makeRoom(bytes: number): Promise<void>
}

const LEASES = '.leases'
const LEAST_RENEW_MS = 1_000
/** A trainer may be writing a directory that has no lease yet; its files change at least this often. */
const YOUNG_MS = 60 * 60_000
/** Folders that contain directories of weights. Others, such as batches, are known by their leases. */
const PARENTS = ['policies', 'checkpoints']

/**
 * A directory is in use if it has a lease: a file whose time lies in the future, renewed while the work continues. All processes of the
 * machine take one lock to change leases and to remove, so that no directory disappears between its check and its use.
 */
export function createWeightsCache({ directory: root, limitBytes, leaseMs = 10 * 60_000 }: WeightsPlace): WeightsCache {
  const temp = join(root, TEMP_DIRECTORY)
  const brought = createKeyedQueue()
  const inLine = createSlots(1)
  const pathOf = (key: string): string => join(root, key)
  const leaseOf = (key: string): string => join(root, LEASES, encodeURIComponent(key))

  let made: Promise<void> | null = null
  const make = async (): Promise<void> => {
    await makeDirectory(temp)
    await makeDirectory(join(root, LEASES))
    void sweepTempFiles(temp, Date.now()).catch(() => undefined)
  }
  const locked = async <T>(work: () => Promise<T>): Promise<T> => {
    made ??= make()
    await made.catch(() => (made = null))
    // Callers in this process queue in memory, so that polling for the lock only concerns other processes.
    return inLine.use(() => withDirectoryLock({ path: join(root, '.lock') }, work))
  }

  const lease = async (keys: readonly string[], forMs: number): Promise<void> => {
    const until = Date.now() + forMs
    await locked(async () => {
      for (const key of keys) {
        // Another user's lease may last longer.
        if ((await leasedUntil(leaseOf(key))) >= until) continue
        await (await open(leaseOf(key), 'a')).close()
        await utimes(leaseOf(key), until / 1000, until / 1000)
      }
    })
  }

  const remove = async (key: string): Promise<void> => {
    const aside = join(temp, tempName())
    await rename(pathOf(key), aside).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error
    })
    await rm(aside, { recursive: true, force: true })
  }

  const known = async (): Promise<{ key: string; bytes: number; until: number }[]> => {
    const named = (await namesIn(join(root, LEASES), { orFile: true })).map((name) => decodeURIComponent(name))
    const made = await Promise.all(
      PARENTS.map(async (parent) =>
        (await namesIn(pathOf(parent), { orFile: true })).map((name) => `${parent}/${name}`),
      ),
    )
    const keys = [...new Set([...named, ...made.flat()])]
    const found = await Promise.all(
      keys.map(async (key) => {
        const size = await sizeOf(pathOf(key))
        const until = Math.max(await leasedUntil(leaseOf(key)), named.includes(key) ? 0 : size.changedMs + YOUNG_MS)
        return { key, bytes: size.bytes, until }
      }),
    )
    return found.filter(({ bytes }) => bytes > 0)
  }

  const makeRoom = (bytes: number): Promise<void> =>
    locked(async () => {
      const all = await known()
      let total = bytes + all.reduce((sum, one) => sum + one.bytes, 0)
      for (const one of all.filter(({ until }) => until < Date.now()).sort((a, b) => a.until - b.until)) {
        if (total <= limitBytes) return
        await remove(one.key)
        await rm(leaseOf(one.key), { force: true })
        total -= one.bytes
      }
    })

  return {
    path: pathOf,
    makeRoom,
    async hold({ keys, afterMs = 0 }, work) {
      await lease(keys, leaseMs)
      // The next renewal makes up for one that failed.
      const renew = () => void lease(keys, leaseMs).catch(() => undefined)
      const timer = setInterval(renew, Math.max(leaseMs / 5, LEAST_RENEW_MS))
      try {
        return await work()
      } finally {
        clearInterval(timer)
        if (afterMs > 0) await lease(keys, afterMs)
      }
    },
    bring: ({ key, bytes, isWhole, fill }) =>
      brought.run(key, async () => {
        const final = pathOf(key)
        if (await isWhole(final)) return
        await makeRoom(bytes)
        const staging = join(temp, tempName())
        try {
          await makeDirectory(staging)
          await fill(staging)
          await makeDirectory(dirname(final))
          await locked(async () => {
            // Another process was faster.
            if (await isWhole(final)) return
            // The directory is incomplete or comes from another host. Its files are never mixed with these.
            if (await exists(final)) await remove(key)
            await rename(staging, final)
          })
        } catch (error) {
          throw asCacheError(error, root)
        } finally {
          await rm(staging, { recursive: true, force: true })
        }
      }),
  }
}

function asCacheError(error: unknown, directory: string): unknown {
  const errno = errnoOf(error)
  if (errno !== 'ENOSPC' && errno !== 'EDQUOT') return error
  return new LonghaulError({
    code: 'Artifact.OutOfDisk',
    message:
      'Expected room for weights on this machine: free some, keep fewer (LONGHAUL_WEIGHTS_GIB), or name a directory with more (LONGHAUL_WEIGHTS)',
    details: { directory, errno },
    cause: error,
  })
}

async function leasedUntil(path: string): Promise<number> {
  return stat(path).then(
    ({ mtimeMs }) => mtimeMs,
    (error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return 0
      throw error
    },
  )
}

/** Files may disappear while they are counted: another process evicts, and a trainer cleans up. */
async function sizeOf(path: string): Promise<{ bytes: number; changedMs: number }> {
  const found = await stat(path).catch(() => null)
  if (found === null) return { bytes: 0, changedMs: 0 }
  if (!found.isDirectory()) return { bytes: found.size, changedMs: found.mtimeMs }
  const parts = await Promise.all((await namesIn(path, { orFile: true })).map((name) => sizeOf(join(path, name))))
  return {
    bytes: parts.reduce((sum, part) => sum + part.bytes, 0),
    changedMs: Math.max(found.mtimeMs, ...parts.map((part) => part.changedMs)),
  }
}
