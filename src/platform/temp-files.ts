import { randomUUID } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { descriptors, errnoOf } from './files.ts'
import { identify, isAlive } from './processes.ts'

/** A file this old is abandoned, on any host: writes take milliseconds, batches minutes. */
const ABANDONED_MS = 24 * 60 * 60 * 1000

const HOST = hostname().replaceAll(/[^A-Za-z0-9-]/g, '-')

/** Read once: each record has a temporary name. */
const SELF = identify(process.pid)

/** A new name in the temporary directory: it says who writes, so that a sweep can ask whether the writer lives. */
export function tempName(): string {
  return `${HOST}.${SELF.pid}-${SELF.startTime}.${randomUUID()}`
}

/** Writes and syncs a new temporary file. */
export async function writeTempFile(directory: string, bytes: Uint8Array): Promise<string> {
  const path = join(directory, tempName())
  const descriptor = await descriptors.open(path, 'wx')
  try {
    await descriptors.write(descriptor, bytes)
    await descriptors.fdatasync(descriptor)
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await descriptors.close(descriptor)
  }
  return path
}

/** Removes what dead writers left behind; files of live processes and of other hosts are kept until they are a day old.
 *  @param prefix of the names, before that of `tempName`, in a directory that has other files too */
export async function sweepTempFiles(directory: string, nowMs: number, prefix = ''): Promise<number> {
  let removed = 0
  for (const name of await readdir(directory)) {
    const path = join(directory, name)
    if (!name.startsWith(prefix) || !(await isAbandoned(path, name.slice(prefix.length), nowMs))) continue
    await rm(path, { force: true, recursive: true })
    removed += 1
  }
  return removed
}

async function isAbandoned(path: string, name: string, nowMs: number): Promise<boolean> {
  const [host, writer = ''] = name.split('.')
  const [pid, startTime = ''] = writer.split('-')
  if (host === HOST && !isAlive({ pid: Number(pid), startTime })) return true
  try {
    return nowMs - (await stat(path)).mtimeMs > ABANDONED_MS
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false
    throw error
  }
}
