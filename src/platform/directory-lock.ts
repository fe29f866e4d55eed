import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { LonghaulError } from '../contracts/errors.ts'
import { fileAgeMs } from './files.ts'
import {
  identify,
  isAlive,
  isThisProcessSpace,
  type ProcessIdentity,
  type ProcessSpace,
  thisProcessSpace,
} from './processes.ts'

const POLL_MS = 200
/** To ask about a holder of another machine writes a file. */
const ELSEWHERE_POLL_MS = 2_000
/** How often a holder shows that it lives to machines that cannot look up its process. */
const BEAT_MS = 15_000
/** A holder of another machine that has been silent for so long counts as dead. */
const SILENT_MS = 120_000

export interface DirectoryLockInput {
  path: string
  /** @default 15 minutes; a build says its own */
  timeoutMs?: number
  signal?: AbortSignal | undefined
  /** Called again and again while another process holds the lock. */
  onWait?: (() => void) | undefined
}

/**
 * Runs `work` while no other process holds the same path, on any machine or in any container that has the directory. A dead holder is
 * replaced: the lock names its process and where that runs. A reused pid has another start time, and a process that cannot be looked up
 * here counts as dead after two minutes without a sign of life.
 * @throws LonghaulError `Stack.SetupFailed` when the holder lives longer than `timeoutMs`
 */
export async function withDirectoryLock<T>(input: DirectoryLockInput, work: () => Promise<T>): Promise<T> {
  const { path, timeoutMs = 15 * 60_000, signal, onWait } = input
  const deadline = Date.now() + timeoutMs
  let release = await tryDirectoryLock(path)
  while (release === null) {
    const holder = await readHolder(path)
    const isElsewhere = holder !== null && !isHere(holder)
    if (Date.now() > deadline) {
      throw new LonghaulError({
        code: 'Stack.SetupFailed',
        message: `Another process holds the lock${isElsewhere ? `, on ${holder.space?.host}` : ''}`,
        details: { path, pid: holder?.process?.pid ?? null },
      })
    }
    onWait?.()
    const pauseMs = isElsewhere ? ELSEWHERE_POLL_MS : POLL_MS
    await sleep(pauseMs, undefined, signal === undefined ? {} : { signal })
    release = await tryDirectoryLock(path)
  }
  try {
    return await work()
  } finally {
    await release()
  }
}

/** Locks the path without waiting, until the returned function is called. Null: another process holds it. */
export async function tryDirectoryLock(path: string): Promise<(() => Promise<void>) | null> {
  const { pid, startTime } = identify(process.pid)
  const holder = `${pid} ${startTime} ${randomUUID()} ${JSON.stringify(thisProcessSpace())}`
  const prepared = `${path}.${randomUUID()}`
  await mkdir(prepared)
  await writeFile(join(prepared, 'holder'), holder)
  try {
    // A rename onto a directory with a file fails, so the lock and its owner's name appear in one step.
    await rename(prepared, path)
  } catch {
    await rm(prepared, { recursive: true, force: true })
    await removeAbandonedLock(path)
    return null
  }
  const beat = setInterval(() => void writeFile(join(path, BEAT), '.').catch(() => undefined), BEAT_MS)
  beat.unref()
  return async () => {
    clearInterval(beat)
    // Another machine takes the lock of a process that was stopped for minutes.
    if ((await readText(path)) === holder) await removeAtOnce(path, holder)
  }
}

const BEAT = 'beat'

/** Whether the owner of the lock at a path is dead. */
export async function isAbandonedLock(path: string): Promise<boolean> {
  const holder = await readHolder(path)
  return holder !== null && (await isDead(path, holder))
}

async function isDead(path: string, holder: Holder): Promise<boolean> {
  if (isHere(holder)) return holder.process === null || !isAlive(holder.process)
  // Where nothing can be written, its silence cannot be measured.
  const ageOf = (name: string): Promise<number | null> => fileAgeMs(join(path, name), dirname(path)).catch(() => null)
  const silentMs = (await ageOf(BEAT)) ?? (await ageOf('holder'))
  return silentMs !== null && silentMs > SILENT_MS
}

/** @returns whether it was abandoned and is gone */
export async function removeAbandonedLock(path: string): Promise<boolean> {
  const holder = await readHolder(path)
  if (holder === null || !(await isDead(path, holder))) return false
  return removeAtOnce(path, holder.text)
}

interface Holder {
  /** Of this one lock; two locks of a process have different texts. */
  text: string
  /** Null in a file that a machine did not write whole before it lost its power. */
  process: ProcessIdentity | null
  /** Null in a lock of an earlier version. */
  space: ProcessSpace | null
}

function isHere({ space }: Holder): boolean {
  return space === null || isThisProcessSpace(space)
}

async function readHolder(path: string): Promise<Holder | null> {
  const text = await readText(path)
  if (text === null) return null
  const [, pid, startTime = '', space] = /^(\d+) ?(\d*)(?: \S+ (\{.+\}))?$/.exec(text) ?? []
  return {
    text,
    process: pid === undefined ? null : { pid: Number(pid), startTime },
    space: space === undefined ? null : (JSON.parse(space) as ProcessSpace),
  }
}

function readText(path: string): Promise<string | null> {
  return readFile(join(path, 'holder'), 'utf8').catch(() => null)
}

/**
 * Released by one rename, because a lock that is emptied in place may already belong to the next holder.
 * @returns whether that was the lock with this text; another one, of a holder that came meanwhile, is put back
 */
async function removeAtOnce(path: string, text: string): Promise<boolean> {
  const aside = `${path}.removed.${randomUUID()}`
  const moved = await rename(path, aside).then(
    () => true,
    () => false,
  )
  if (!moved) return false
  const isThatOne = (await readFile(join(aside, 'holder'), 'utf8').catch(() => text)) === text
  if (
    !isThatOne &&
    (await rename(aside, path).then(
      () => true,
      () => false,
    ))
  )
    return false
  await rm(aside, { recursive: true, force: true })
  return isThatOne
}
