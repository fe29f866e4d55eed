import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { withDirectoryLock } from '../../../platform/directory-lock.ts'
import { enginePlace, type Engine } from '../engine/engine.ts'
import { imageExists } from './images.ts'
import { sha256Hex } from '../../../platform/hash.ts'
import { createKeyedQueue } from '../../../platform/limiter.ts'
import { unlessAborted } from '../../../platform/unless-aborted.ts'
import { makeDirectory, writeFileAtomically } from '../../../platform/files.ts'

/** Longer than an image takes to arrive, and shorter than an activity that waits for it. */
export const LOCK_TIMEOUT_MS = 60 * 60_000

interface ImageKeeperOptions {
  engine: Engine
  /** Shared by all workers of the machine. Contains locks and the times of last use. */
  cacheDir: string
}

/** Manages the images of one engine. At any time, one process of the machine pulls or builds a given image. */
export interface ImageKeeper {
  /** Records the use, and makes the image if it is missing. Concurrent callers share one build or pull, which goes on when one of
   *  them is cancelled. */
  ensure(input: { image: string; make: (signal: AbortSignal) => Promise<void>; signal: AbortSignal }): Promise<void>
  /** Runs `work` while no other process of this machine builds or removes the image. */
  withImage<T>(image: string, work: (uses: ImageUses) => Promise<T>): Promise<T>
  uses(): Promise<ImageUses>
  /** Aborts the builds and pulls in progress. */
  dispose(): void
}

export function createImageKeeper({ engine, cacheDir }: ImageKeeperOptions): ImageKeeper {
  const making = new Map<string, Promise<void>>()
  const turns = createKeyedQueue()
  const closing = new AbortController()

  const directory = async (): Promise<string> => {
    const { id } = await enginePlace(engine)
    return join(cacheDir, 'image-uses', sha256Hex(id).slice(0, 12))
  }
  const uses = async (): Promise<ImageUses> => createImageUses({ directory: await directory() })

  const locked = async <T>(image: string, work: (known: ImageUses) => Promise<T>): Promise<T> => {
    const folder = await directory()
    await makeDirectory(folder)
    const lock = { path: join(folder, `${imageKey(image)}.lock`), timeoutMs: LOCK_TIMEOUT_MS, signal: closing.signal }
    return withDirectoryLock(lock, async () => work(await uses()))
  }
  // The lock excludes other processes but not other callers in this process.
  const withImage = <T>(image: string, work: (known: ImageUses) => Promise<T>): Promise<T> =>
    turns.run(image, () => locked(image, work))

  return {
    uses,
    withImage,
    async ensure({ image, make, signal }) {
      signal.throwIfAborted()
      const shared =
        making.get(image) ??
        withImage(image, async (known) => {
          // Recorded first, so that the image is not evicted before it is used.
          await known.note({ image, usedAtMs: Date.now() })
          if (!(await imageExists({ engine, image }))) await make(closing.signal)
        }).finally(() => making.delete(image))
      making.set(image, shared)
      await unlessAborted(shared, signal)
    },
    dispose: () => closing.abort(),
  }
}

/** When an image was last needed. Engines do not record that, and a worker's memory does not survive a restart. */
interface ImageUse {
  image: string
  /** Milliseconds since 1970. */
  usedAtMs: number
}

interface ImageUses {
  note(use: ImageUse): Promise<void>
  /** Null for an image that was never needed here. */
  read(image: string): Promise<ImageUse | null>
  /** Least recently used first. */
  list(): Promise<ImageUse[]>
  forget(image: string): Promise<void>
}

/** Stores one small file per image. Writes are atomic, because several workers of a host write concurrently. */
function createImageUses({ directory }: { directory: string }): ImageUses {
  const pathOf = (image: string): string => join(directory, `${imageKey(image)}.json`)
  return {
    async note(use) {
      await writeFileAtomically(pathOf(use.image), JSON.stringify(use))
    },
    read: (image) => readUse(pathOf(image)),
    async list() {
      const names = await readdir(directory).catch(() => [])
      const files = names.filter((name) => name.endsWith('.json'))
      const uses = await Promise.all(files.map((name) => readUse(join(directory, name))))
      return uses.filter((use) => use !== null).toSorted((one, other) => one.usedAtMs - other.usedAtMs)
    },
    forget: (image) => rm(pathOf(image), { force: true }),
  }
}

function imageKey(image: string): string {
  return sha256Hex(image).slice(0, 32)
}

/** An unreadable file names no image and therefore causes no eviction. */
async function readUse(path: string): Promise<ImageUse | null> {
  try {
    const { image, usedAtMs } = JSON.parse(await readFile(path, 'utf8')) as Partial<ImageUse>
    return typeof image === 'string' && typeof usedAtMs === 'number' ? { image, usedAtMs } : null
  } catch {
    return null
  }
}
