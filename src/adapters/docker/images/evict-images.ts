import { statfs } from 'node:fs/promises'
import { isStatus } from '../engine/engine-errors.ts'
import { enginePlace, type Engine } from '../engine/engine.ts'
import type { ImageKeeper } from './image-keeper.ts'

/** An image has no container for a moment between the agent's and the grader's. This protects it for much longer than that. */
const LEASE_MS = 15 * 60_000

export interface EvictImagesInput {
  engine: Engine
  keeper: ImageKeeper
  /** Watermark: while fewer bytes are free, images are removed. */
  minFreeBytes: number
  /** Null if the engine's disk is not visible to this process. @default the file system of the engine's data */
  freeBytes?: () => Promise<number | null>
  now?: number
  signal: AbortSignal
}

/** Removes the least recently used task images while the disk is too full. Keeps images that have a container, images used in the
 *  last quarter of an hour, and images that Longhaul did not bring here.
 *  @returns the removed images */
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
    // Read again under the lock, because another process may have requested the image since.
    const use = await uses.read(image)
    if (use === null || use.usedAtMs > before) return false
    const users = await engine.docker.listContainers({ all: true, filters: { ancestor: [image] } })
    if (users.length > 0) return false
    try {
      // Without force, so that the engine keeps images that are in use.
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

/** Returns the free bytes where the engine stores its images; null if the engine runs on another machine. */
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
