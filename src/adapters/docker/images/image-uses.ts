import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** When an image was last needed. Engines do not know that, and a worker's memory does not survive it. */
export interface ImageUse {
  image: string
  /** Milliseconds since 1970. */
  usedAtMs: number
}

export interface ImageUses {
  note(use: ImageUse): Promise<void>
  /** Null for an image that was never needed here. */
  read(image: string): Promise<ImageUse | null>
  /** Longest unused first. */
  list(): Promise<ImageUse[]>
  forget(image: string): Promise<void>
}

/** One small file an image: several workers of a host write side by side, and each write is whole or not there. */
export function createImageUses({ directory }: { directory: string }): ImageUses {
  const pathOf = (image: string): string => join(directory, `${imageKey(image)}.json`)
  return {
    async note(use) {
      await mkdir(directory, { recursive: true })
      const path = pathOf(use.image)
      const temporary = `${path}.${process.pid}.tmp`
      await writeFile(temporary, JSON.stringify(use))
      await rename(temporary, path)
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

export function imageKey(image: string): string {
  return createHash('sha256').update(image).digest('hex').slice(0, 32)
}

/** An unreadable file names no image and so evicts none. */
async function readUse(path: string): Promise<ImageUse | null> {
  try {
    const { image, usedAtMs } = JSON.parse(await readFile(path, 'utf8')) as Partial<ImageUse>
    return typeof image === 'string' && typeof usedAtMs === 'number' ? { image, usedAtMs } : null
  } catch {
    return null
  }
}
