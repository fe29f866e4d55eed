import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { LonghaulError } from '../contracts/errors.ts'
import { identify, isAlive } from './processes.ts'

export interface DirectoryLockInput {
  path: string
  /** @default 15 minutes, longer than any build that holds one */
  timeoutMs?: number
  signal?: AbortSignal | undefined
}

/** Runs `work` while no other process of this machine holds the same path. A dead holder is replaced: the lock
 *  contains its pid and start time, and a reused pid has another start time.
 *  @throws LonghaulError `Stack.SetupFailed` when the holder lives longer than `timeoutMs` */
export async function withDirectoryLock<T>(input: DirectoryLockInput, work: () => Promise<T>): Promise<T> {
  const { path, timeoutMs = 15 * 60_000, signal } = input
  const deadline = Date.now() + timeoutMs
  let release = await tryDirectoryLock(path)
  while (release === null) {
    if (Date.now() > deadline) {
      throw new LonghaulError({
        code: 'Stack.SetupFailed',
        message: 'Another process holds the lock',
        details: { path },
      })
    }
    await sleep(200, undefined, signal === undefined ? {} : { signal })
    release = await tryDirectoryLock(path)
  }
  try {
    return await work()
  } finally {
    await release()
  }
}

/** Locks the path without waiting, until the returned function is called. Null: a process of this machine holds it. */
export async function tryDirectoryLock(path: string): Promise<(() => Promise<void>) | null> {
  return (await tryLock(path)) ? () => removeAtOnce(path) : null
}

/** Paths that this process holds: two of its callers may request one path concurrently. */
let attempts = 0

async function tryLock(path: string): Promise<boolean> {
  const { pid, startTime } = identify(process.pid)
  const prepared = `${path}.${process.pid}.${attempts++}`
  await rm(prepared, { recursive: true, force: true })
  await mkdir(prepared)
  await writeFile(join(prepared, 'holder'), `${pid} ${startTime}`)
  try {
    // A rename onto a directory with a file fails, so the lock and its owner's name appear in one step.
    await rename(prepared, path)
    return true
  } catch {
    await rm(prepared, { recursive: true, force: true })
    await removeAbandonedLock(path)
    return false
  }
}

/** Whether the owner of the lock at a path is dead. */
export async function isAbandonedLock(path: string): Promise<boolean> {
  const holder = await readFile(join(path, 'holder'), 'utf8').catch(() => null)
  if (holder === null) return false
  const [pid, startTime = ''] = holder.split(' ')
  return !isAlive({ pid: Number(pid), startTime })
}

/** @returns whether it was abandoned and is gone */
export async function removeAbandonedLock(path: string): Promise<boolean> {
  if (!(await isAbandonedLock(path))) return false
  await removeAtOnce(path)
  return true
}

/** Released by one rename, because a lock that is emptied in place may already belong to the next holder. */
async function removeAtOnce(path: string): Promise<void> {
  const aside = `${path}.removed.${process.pid}.${attempts++}`
  const moved = await rename(path, aside).then(
    () => true,
    () => false,
  )
  if (moved) await rm(aside, { recursive: true, force: true })
}
