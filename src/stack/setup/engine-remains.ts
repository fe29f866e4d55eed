import { execFile } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { promisify } from 'node:util'

import { readMounts } from '../../platform/mount-table.ts'
import { listProcesses, signalProcess, waitUntilGone, withDescendants } from '../../platform/processes.ts'
import type { EngineFiles } from './private-engine.ts'
import { SYSTEM_PATH } from './system-packages.ts'

/**
 * Removes what a killed engine leaves: its containerd, a shim per container with the container's processes below it, mounts of layers and
 * network namespaces, a pid file that makes the next engine refuse to start, and a dead socket. All of them carry the engine's own
 * directories in their command line or path, so other engines are not touched.
 * @returns descriptions of what was found
 */
export async function clearEngineRemains({ files }: { files: EngineFiles }): Promise<string[]> {
  const found: string[] = []
  const processes = await killProcesses(files)
  if (processes > 0) found.push(`${processes} leftover processes`)
  const mounts = await unmountAll([files.dataRoot, files.execRoot])
  if (mounts > 0) found.push(`${mounts} mounts`)
  if ((await readFile(files.pidFile, 'utf8').catch(() => null)) !== null) found.push('a stale pid file')
  for (const path of [files.pidFile, files.socket, files.record]) await rm(path, { force: true })
  await rm(files.execRoot, { recursive: true, force: true })
  return found
}

async function killProcesses(files: EngineFiles): Promise<number> {
  const all = listProcesses()
  const marks = [`${files.execRoot}/`, `--exec-root ${files.execRoot}`]
  const roots = all.filter(({ pid, command }) => pid !== process.pid && marks.some((mark) => command.includes(mark)))
  // Container processes do not name our directories, so they are found as descendants of their shims.
  const targets = new Map(roots.flatMap((root) => withDescendants(root, all)).map((target) => [target.pid, target]))
  // Parents first: a shell that outlives its command would journal "Killed" as output of the agent's command.
  for (const target of [...targets.values()].toReversed()) signalProcess(target, 'SIGKILL')
  for (const target of targets.values()) await waitUntilGone({ identity: target, timeoutMs: 5_000 })
  return targets.size
}

/** Unmounts the deepest first, and lazily, since a process in another mount namespace may still use one. */
async function unmountAll(roots: string[]): Promise<number> {
  const mounts = await mountsBelow(roots)
  for (const mount of mounts) {
    await promisify(execFile)('umount', ['-l', mount], { env: { PATH: SYSTEM_PATH }, timeout: 20_000 }).catch(
      () => undefined,
    )
  }
  return mounts.length
}

export async function mountsBelow(roots: string[], table?: string): Promise<string[]> {
  const mounts = await readMounts(table)
  return mounts
    .map(({ path }) => path)
    .filter((path) => roots.some((root) => path === root || path.startsWith(`${root}/`)))
    .reverse()
}
