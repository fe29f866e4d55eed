import { execFile, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { readFile, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { connectEngine } from '../../adapters/docker/engine/engine.ts'
import { withDirectoryLock } from '../../platform/directory-lock.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { makeDirectory, readJson, rotateLog, tailOf, writeFileAtomically } from '../../platform/files.ts'
import type { StackPaths } from '../paths.ts'
import {
  type ProcessIdentity,
  identify,
  isAlive,
  listProcesses,
  signalProcess,
  stopProcess,
  waitUntilGone,
  withDescendants,
} from '../../platform/processes.ts'
import { SYSTEM_PATH, findProgram } from './system-packages.ts'
import { sha256OfParts } from '../../platform/hash.ts'
import { readMounts } from '../../platform/mount-table.ts'

/** A start takes 1-2 s; a slow disk with many layers needs longer. */
const START_TIMEOUT_MS = 90_000
/** The engine gives its containers 5 s (below); the rest is for its own cleanup. */
const STOP_GRACE_MS = 30_000

export interface EngineFiles {
  dataRoot: string
  execRoot: string
  socket: string
  pidFile: string
  configFile: string
  record: string
  usersDir: string
  lock: string
  log: string
}

/** Data lies in the cache, files that need not survive a reboot in the run directory. */
export function engineFiles({ cacheDir, runDir }: Pick<StackPaths, 'cacheDir' | 'runDir'>): EngineFiles {
  return {
    dataRoot: join(cacheDir, 'engine'),
    execRoot: join(runDir, 'exec'),
    socket: join(runDir, 'docker.sock'),
    pidFile: join(runDir, 'docker.pid'),
    configFile: join(runDir, 'daemon.json'),
    record: join(runDir, 'engine.json'),
    usersDir: join(runDir, 'engine-users'),
    lock: join(runDir, 'engine.lock'),
    log: join(cacheDir, 'engine.log'),
  }
}

export interface EngineUser {
  /** Unique among the stacks of this user: name and data directory. */
  key: string
  /** While this process lives, the engine is in use. */
  owner: ProcessIdentity
}

interface AcquirePrivateEngineInput {
  files: EngineFiles
  user: EngineUser
  log: (line: string) => void
  signal?: AbortSignal
  /** Further flags, used only if this call starts the engine. */
  flags?: readonly string[]
}

/** Starts the engine or uses the running one; cleans up after a killed one. Registers the user until its release.
 *  @throws LonghaulError `Stack.SetupFailed` */
export async function acquirePrivateEngine(input: AcquirePrivateEngineInput): Promise<'started' | 'running'> {
  const { files, user, log, signal, flags = [] } = input
  await makeDirectory(files.usersDir, { mode: 0o700 })
  return withDirectoryLock({ path: files.lock, timeoutMs: 180_000, signal }, async () => {
    await noteEngineUser({ files, user })
    if (await engineRuns(files)) return 'running'
    const found = await clearEngineRemains({ files })
    if (found.length > 0) log(`the private engine had been killed; cleared ${found.join(', ')}`)
    await startEngine({ files, flags, signal })
    return 'started'
  })
}

export async function noteEngineUser({ files, user }: { files: EngineFiles; user: EngineUser }): Promise<void> {
  await writeFileAtomically(join(files.usersDir, `${user.key}.json`), JSON.stringify(user.owner))
}

/** Stops the engine unless another stack uses it. Safe to repeat, also after a crash of the engine or a stack. */
export async function releasePrivateEngine(input: {
  files: EngineFiles
  key: string
}): Promise<'stopped' | 'still-used' | 'not-running'> {
  const { files, key } = input
  if ((await readdir(files.usersDir).catch(() => null)) === null) return 'not-running'
  return withDirectoryLock({ path: files.lock, timeoutMs: 180_000 }, async () => {
    await rm(join(files.usersDir, `${key}.json`), { force: true })
    if ((await otherUsers(files)) > 0) return 'still-used'
    const engine = await readJson<ProcessIdentity>(files.record)
    const stopped = engine === null ? 'gone' : await stopProcess({ identity: engine, graceMs: STOP_GRACE_MS })
    await clearEngineRemains({ files })
    return stopped === 'gone' ? 'not-running' : 'stopped'
  })
}

/** Whether the engine's process is alive and its socket answers. */
export async function engineRuns(files: EngineFiles): Promise<boolean> {
  const engine = await readJson<ProcessIdentity>(files.record)
  if (engine === null || !isAlive(engine)) return false
  return answers(files, 5_000)
}

async function startEngine(input: {
  files: EngineFiles
  flags: readonly string[]
  signal: AbortSignal | undefined
}): Promise<void> {
  const { files, flags, signal } = input
  await makeDirectory(files.dataRoot, { mode: 0o711 })
  await makeDirectory(files.execRoot, { mode: 0o711 })
  // A separate file: a system engine's settings in /etc/docker could contradict these flags.
  await writeFile(files.configFile, '{}\n')
  await rotateLog(files.log)
  const log = openSync(files.log, 'a')
  const child = spawn(
    findProgram('dockerd') ?? 'dockerd',
    [
      ['--config-file', files.configFile, '--data-root', files.dataRoot, '--exec-root', files.execRoot],
      ['--pidfile', files.pidFile, '-H', `unix://${files.socket}`, '--shutdown-timeout', '5'],
      // Sandboxes have no network, so the engine needs neither a bridge nor rules in the machine's firewall.
      ['--bridge', 'none', '--iptables=false', '--ip6tables=false'],
      flags,
    ].flat(),
    { stdio: ['ignore', log, log], detached: true, env: { ...process.env, PATH: SYSTEM_PATH } },
  )
  closeSync(log)
  const failure = new Promise<string>((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('exit', (code) => resolve(`it ended with ${code}`))
  })
  let ended: string | undefined
  void failure.then((why) => {
    ended = why
  })
  if (child.pid !== undefined) await writeFileAtomically(files.record, JSON.stringify(identify(child.pid)))
  const deadline = Date.now() + START_TIMEOUT_MS
  while (!(await answers(files, 2_000))) {
    if (ended !== undefined) throw await notStarted(files, ended)
    if (Date.now() > deadline) {
      child.kill('SIGTERM')
      throw await notStarted(files, `no answer within ${START_TIMEOUT_MS / 1000} s`)
    }
    await sleep(150, undefined, signal === undefined ? {} : { signal })
  }
  child.unref()
}

function answers(files: EngineFiles, timeoutMs: number): Promise<boolean> {
  return connectEngine({ host: `unix://${files.socket}`, timeoutMs }).then(
    () => true,
    () => false,
  )
}

async function otherUsers(files: EngineFiles): Promise<number> {
  let living = 0
  for (const name of await readdir(files.usersDir)) {
    const path = join(files.usersDir, name)
    const owner = await readJson<ProcessIdentity>(path)
    if (owner !== null && isAlive(owner)) living += 1
    else await rm(path, { force: true })
  }
  return living
}

async function notStarted(files: EngineFiles, why: string): Promise<LonghaulError> {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: [
      `The private Docker engine did not start: ${why}. Its last lines (${files.log}):`,
      await tailOf(files.log, 8),
      'It needs root with mount and cgroup rights. Where this machine cannot give them, point DOCKER_HOST at an engine.',
    ].join('\n'),
  })
}

/** Identifies a stack among the users of a private engine: stacks in different data directories may share a name. */
export function engineUserKey({ name, dataDir }: Pick<StackPaths, 'name' | 'dataDir'>): string {
  return `${name}-${sha256OfParts(dataDir).slice(0, 8)}`
}

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
