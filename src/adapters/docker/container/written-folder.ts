import { execFile } from 'node:child_process'
import { access, constants, opendir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { ContainerInspectInfo } from 'dockerode'
import { errnoOf } from '../../../platform/files.ts'
import { readMounts } from '../../../platform/mount-table.ts'
import type { Engine } from '../engine/engine.ts'

const run = promisify(execFile)

/** When it removes a folder, an engine holds a descriptor and a buffer for each level. Honest trees have a few dozen levels, and no
 *  path has more than 2,048. */
const MAX_LEVELS = 500
/** More are left to a program. */
const MAX_ENTRIES = 10_000
const FIND_MS = 30_000
/** A sandbox may hold 65,536 folders for each gibibyte. */
const DELETE_MS = 120_000
const STOP_MS = 10_000

/** By the id of a container. An engine that reports no folder unmounts it when the container ends, and it is then found nowhere else. */
const mounted = new WeakMap<Engine, Map<string, string>>()

/**
 * Returns where an overlay file system stores what a container has written; undefined for other storage drivers. overlay2 reports it.
 * containerd's image store (driver `overlayfs`, the default of fresh engines from 29) does not: there the folder is read from the
 * mounts of the container's first process, so that this process must share the engine's machine and PID namespace, and must have asked
 * once while the container ran.
 */
export async function writtenFolderOf(engine: Engine, facts: ContainerInspectInfo): Promise<string | undefined> {
  // Engines from API 1.52 on leave the driver out if it reports nothing.
  const driver = facts.GraphDriver as ContainerInspectInfo['GraphDriver'] | undefined
  const reported = (driver?.Data as Record<string, string> | null | undefined)?.['UpperDir']
  if (reported !== undefined) return reported
  const known = mounted.get(engine) ?? new Map<string, string>()
  const found = (await mountedFolderOf(facts)) ?? known.get(facts.Id)
  if (found !== undefined) mounted.set(engine, known.set(facts.Id, found))
  return found
}

async function mountedFolderOf({ Id: id, State: { Pid: pid } }: ContainerInspectInfo): Promise<string | undefined> {
  if (!(pid > 0)) return undefined
  const mounts = await readMounts(`/proc/${pid}/mountinfo`)
  // On another machine, or after the container's end, the PID may be another process's.
  const groups = await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')
  if (!groups.includes(id)) return undefined
  return mounts.findLast(({ path, type }) => path === '/' && type === 'overlay')?.options.get('upperdir')
}

/** Returns whether this process runs on the engine's machine and may read its files. */
export function mayRead(directory: string): Promise<boolean> {
  return access(directory, constants.R_OK | constants.X_OK).then(
    () => true,
    () => false,
  )
}

/**
 * Flattens deeply nested folders of a container that is about to be removed. Thousands of levels exhaust the engine's descriptors: it
 * then serves no container during the removal, and the removal fails. The container is killed first, because its processes could keep
 * nesting. Does nothing if the engine's files cannot be reached.
 */
export async function flattenWrittenFolder(engine: Engine, name: string): Promise<void> {
  const container = engine.docker.getContainer(name)
  const facts = await container.inspect().catch(() => null)
  const directory = facts === null ? undefined : await writtenFolderOf(engine, facts)
  if (facts !== null) mounted.get(engine)?.delete(facts.Id)
  if (directory === undefined || !(await mayRead(directory)) || !(await isDeep(directory))) return
  await container.kill({ signal: 'SIGKILL' }).catch(() => undefined)
  for (const end = performance.now() + STOP_MS; performance.now() < end; await sleep(50)) {
    const now = await container.inspect().catch(() => null)
    if (now?.State.Running !== true) break
  }
  await find(directory, ['-delete'], DELETE_MS)
}

async function isDeep(directory: string): Promise<boolean> {
  if (await hasFewFolders(directory)) return false
  return (await find(directory, ['-print', '-quit'], FIND_MS)) !== ''
}

/**
 * Fewer folders than `MAX_LEVELS` cannot be nested that deep. An honest container has written a few dozen, and reading them costs
 * less than starting a program, which blocks a large process for milliseconds. A folder may hold a million files, so it is read in
 * pieces, and only the first `MAX_ENTRIES` of all.
 */
async function hasFewFolders(directory: string): Promise<boolean> {
  const folders = [directory]
  let entries = 0
  for (const folder of folders) {
    try {
      for await (const entry of await opendir(folder)) {
        entries += 1
        if (entry.isDirectory()) folders.push(join(folder, entry.name))
        if (folders.length >= MAX_LEVELS || entries >= MAX_ENTRIES) return false
      }
    } catch (error) {
      // It was removed meanwhile; any other failure, such as a path that is too long, says nothing about the folders below.
      if (errnoOf(error) !== 'ENOENT') return false
    }
  }
  return true
}

/** GNU find, addressed by its own name: it walks trees of any depth with few descriptors. It exits with 1 if entries disappear
 *  meanwhile. */
async function find(directory: string, action: string[], timeout: number): Promise<string> {
  const args = [directory, '-xdev', '-mindepth', String(MAX_LEVELS), ...action]
  const settings = { timeout, env: { PATH: process.env['PATH'], LC_ALL: 'C' } }
  const { stdout } = await run('find', args, settings).catch((error: { stdout?: string }) => ({
    stdout: error.stdout ?? '',
  }))
  return stdout
}
