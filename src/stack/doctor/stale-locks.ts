import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbandonedLock, removeAbandonedLock } from '../../platform/directory-lock.ts'

/** Locks lie beside what they guard, at most this far below a place. */
const DEPTH = 3

interface StaleLocks {
  /** Locks of processes that live. */
  held: number
  /** Paths of the others. */
  stale: string[]
  /** Removes each that is still abandoned. @returns how many went */
  remove(): Promise<number>
}

/**
 * Locks (`withDirectoryLock`) whose owners died before they gave them back. The next process that wants one replaces it by itself, so they
 * cost nothing but the question what they mean.
 */
export async function findStaleLocks(places: readonly string[]): Promise<StaleLocks> {
  const locks = (await Promise.all(places.map((place) => locksBelow(place, DEPTH)))).flat()
  const abandoned = await Promise.all(locks.map(isAbandonedLock))
  const stale = locks.filter((_, at) => abandoned[at] === true)
  return {
    held: locks.length - stale.length,
    stale,
    async remove() {
      const removed = await Promise.all(stale.map(removeAbandonedLock))
      return removed.filter((gone) => gone).length
    },
  }
}

async function locksBelow(directory: string, depth: number): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => [])
  const folders = entries.filter((entry) => entry.isDirectory())
  const locks = folders.filter(({ name }) => name.endsWith('.lock')).map(({ name }) => join(directory, name))
  if (depth <= 1) return locks
  // Data of an engine and of the store have no locks of ours, and many folders.
  const deeper = folders.filter(({ name }) => !name.endsWith('.lock') && !NO_LOCKS.has(name))
  return [
    ...locks,
    ...(await Promise.all(deeper.map(({ name }) => locksBelow(join(directory, name), depth - 1)))).flat(),
  ]
}

const NO_LOCKS = new Set(['engine', 'artifacts', 'exec', 'bin', 'lib'])
