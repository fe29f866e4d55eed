/** Leftovers of a killed chaos harness: processes, engines with their containers, mounts and folders. The next start identifies them
 *  by the owner recorded in each folder, and removes them. */
import { execFile } from 'node:child_process'
import { readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import {
  identify,
  isAlive,
  listProcesses,
  type ProcessIdentity,
  signalProcess,
  waitUntilGone,
} from '../../../src/platform/processes.ts'
import { clearEngineRemains, engineFiles, mountsBelow } from '../../../src/stack/setup/private-engine.ts'

/** Prefix of every chaos stack's folder. */
export const STACK_PREFIX = 'lhc-'
const OWNER = 'owner.json'
/** Names of the engines' folders. */
const ENGINES = ['a', 'b']

export async function noteStackOwner(folder: string): Promise<void> {
  await writeFile(join(folder, OWNER), JSON.stringify(identify(process.pid)))
}

/** A folder without an owner is left alone, because it may be new or belong to another program.
 *  @returns the folders that were removed */
export async function clearDeadStacks({ root, say }: { root: string; say: (line: string) => void }): Promise<string[]> {
  const names = (await readdir(root)).filter((name) => name.startsWith(STACK_PREFIX))
  const removed: string[] = []
  for (const name of names) {
    const folder = join(root, name)
    const owner = await readOwner(folder)
    if (owner === null || isAlive(owner)) continue
    const processes = await killThoseAt(folder)
    const remains: string[] = []
    for (const engine of ENGINES) {
      const at = join(folder, engine)
      remains.push(...(await clearEngineRemains({ files: engineFiles({ cacheDir: at, runDir: at }) })))
    }
    const mounts = await mountsBelow([folder])
    for (const mount of mounts) {
      // Another lane may clear the same folder; a remaining mount makes the removal fail.
      await promisify(execFile)('umount', ['-l', mount], { timeout: 20_000 }).catch(() => undefined)
    }
    await rm(folder, { recursive: true, force: true })
    removed.push(folder)
    say(
      `cleared ${folder} of the dead process ${owner.pid}: ${[`${processes} processes`, ...remains, `${mounts.length} mounts`].join(', ')}`,
    )
  }
  return removed
}

async function readOwner(folder: string): Promise<ProcessIdentity | null> {
  try {
    const { pid, startTime } = JSON.parse(await readFile(join(folder, OWNER), 'utf8')) as ProcessIdentity
    return Number.isInteger(pid) && typeof startTime === 'string' ? { pid, startTime } : null
  } catch {
    return null
  }
}

/** All parts of a stack run in its folder. */
async function killThoseAt(folder: string): Promise<number> {
  const here = []
  for (const one of listProcesses()) {
    const cwd = await readlink(`/proc/${one.pid}/cwd`).catch(() => '')
    if (cwd === folder || cwd.startsWith(`${folder}/`)) here.push(one)
  }
  for (const one of here) signalProcess(one, 'SIGKILL')
  for (const one of here) await waitUntilGone({ identity: one, timeoutMs: 5000 })
  return here.length
}
