/** The artifact directory on its own file system, which can be filled and made read-only. */
import { execFile } from 'node:child_process'
import { mkdir, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface ArtifactDisk {
  path: string
  /** No free byte is left until the promise settles. */
  fill(until: Promise<unknown>): Promise<void>
  readOnly(until: Promise<unknown>): Promise<void>
  close(): Promise<void>
}

const SIZE_MIB = 384

export async function mountArtifactDisk(path: string): Promise<ArtifactDisk> {
  await mkdir(path, { recursive: true })
  await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'longhaul-chaos', path])
  const filler = join(path, '.filler')
  const remount = async (mode: 'ro' | 'rw'): Promise<void> => {
    // The mount is busy while a process has a file open for writing: milliseconds, or seconds on a busy machine.
    for (let tries = 0; ; tries++) {
      try {
        await run('mount', ['-o', `remount,${mode}`, path])
        return
      } catch (error) {
        if (tries === 500) throw error
        await sleep(30)
      }
    }
  }
  return {
    path,
    async fill(until) {
      const file = await open(filler, 'w')
      const block = Buffer.alloc(1 << 20)
      try {
        for (;;) await file.write(block)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      } finally {
        await file.close()
      }
      try {
        await until
      } finally {
        await rm(filler)
      }
    },
    async readOnly(until) {
      await remount('ro')
      try {
        await until
      } finally {
        await remount('rw')
      }
    },
    async close() {
      await run('umount', ['-l', path])
    },
  }
}
