import { statfs } from 'node:fs/promises'
import { isStatus } from '../engine/engine-errors.ts'
import { enginePlace, type Engine } from '../engine/engine.ts'
import type { ImageKeeper } from './image-keeper.ts'

/** Between the agent's container and the grader's an image has neither for a moment; this is much longer. */
const LEASE_MS = 15 * 60_000

export interface EvictImagesInput {
  engine: Engine
  keeper: ImageKeeper
  /** Watermark: below this many free bytes images are removed until it is reached. */
  minFreeBytes: number
  /** Null where the engine's disk cannot be seen from here. @default the file system of the engine's data */
  freeBytes?: () => Promise<number | null>
  now?: number
  signal: AbortSignal
}

/** Removes task images that were not needed for longest, while the disk is too full. Never one that a container has, one used
 *  in the last quarter of an hour, or one that Longhaul did not bring here.
 *  @returns the removed ones */
export async function evictImages(input: EvictImagesInput): Promise<string[]> {
  const { engine, keeper, minFreeBytes, now = Date.now(), signal } = input
  const freeBytes = input.freeBytes ?? (() => engineFreeBytes(engine))
  const isFull = async (): Promise<boolean> => {
    const free = await freeBytes()
    return free !== null && free < minFreeBytes
  }
  const removed: string[] = []
  if (!(await isFull())) return removed
  for (const { image } of await (await keeper.uses()).list()) {
    signal.throwIfAborted()
    if (await evict({ engine, keeper, image, before: now - LEASE_MS })) removed.push(image)
    if (!(await isFull())) break
  }
  return removed
}

function evict(input: { engine: Engine; keeper: ImageKeeper; image: string; before: number }): Promise<boolean> {
  const { engine, keeper, image, before } = input
  return keeper.withImage(image, async (uses) => {
    // Read again under the lock: it may have been asked for since.
    const use = await uses.read(image)
    if (use === null || use.usedAtMs > before) return false
    const users = await engine.docker.listContainers({ all: true, filters: { ancestor: [image] } })
    if (users.length > 0) return false
    try {
      // Not by force: what the engine knows to be in use stays.
      await engine.docker.getImage(image).remove()
    } catch (error) {
      if (isStatus(error, 409)) return false
      if (!isStatus(error, 404)) throw error
      await uses.forget(image)
      return false
    }
    await uses.forget(image)
    return true
  })
}

/** Free bytes where the engine keeps its images; null for an engine whose disk is not this machine's. */
export async function engineFreeBytes(engine: Engine): Promise<number | null> {
  if (!engine.host.startsWith('unix://')) return null
  const { rootDir } = await enginePlace(engine)
  try {
    const { bavail, bsize } = await statfs(rootDir)
    return bavail * bsize
  } catch {
    return null
  }
}
