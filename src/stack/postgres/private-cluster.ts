/** PostgreSQL of one stack: its files are in the stack's data directory; only the stack's user can connect, through a socket. */
import { chmod, chown, readdir, readFile, realpath, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import { dirname, join } from 'node:path'
import { LonghaulError } from '../../contracts/errors.ts'
import { exists, makeDirectory } from '../../platform/files.ts'
import { sha256OfParts } from '../../platform/hash.ts'
import { requireCommand, runCommand } from '../../platform/run-command.ts'
import type { StackPaths } from '../paths.ts'
import { findProgram, isRoot } from '../setup/system-packages.ts'
import type { StepContext } from '../steps.ts'
import type { DatabaseAddress } from './database-address.ts'

/** Temporal no longer tests older versions. */
const OLDEST_MAJOR = 15
/** Debian and Ubuntu install the programs here, in a folder per major version. */
const DEBIAN_FOLDER = '/usr/lib/postgresql'
/** PostgreSQL refuses to run as root; Debian's package creates this user. */
const SERVER_USER = 'postgres'
/** The only database role; it owns everything. */
const ROLE = 'temporal'
/** Only the suffix of the socket's file name; no TCP port is opened. */
const PORT = 5432
/** A start takes two seconds; after a crash, recovery first replays the log of the last minutes. */
const START_TIMEOUT_S = 120
const MAKE_TIMEOUT_MS = 120_000

export interface PrivateCluster {
  /** Data directory. */
  folder: string
  socketFolder: string
  /** `initdb`, `pg_ctl`, `postgres`, … */
  programs: string
  /** Such as `15.18`. */
  version: string
  /** User of its processes; null: the user of this process. */
  runsAs: { uid: number; gid: number } | null
  /** What the Temporal server connects to. */
  address: DatabaseAddress
}

/** Describes the cluster from the installed programs and the files in `paths`; creates nothing.
 *  @throws LonghaulError `Stack.SetupFailed` without PostgreSQL, or without the user that it needs */
export async function describeCluster(paths: StackPaths): Promise<PrivateCluster> {
  const folder = clusterFolder(paths)
  const made = await readFile(join(folder, 'PG_VERSION'), 'utf8').catch(() => null)
  const found = await findPostgres(made === null ? null : Number(made.trim()))
  const socketFolder = socketFolderOf(paths)
  return {
    folder,
    socketFolder,
    ...found,
    runsAs: isRoot() ? await serverUser() : null,
    address: {
      host: 'localhost',
      port: PORT,
      user: ROLE,
      password: '',
      database: 'temporal',
      visibility: 'temporal_visibility',
      attributes: { host: socketFolder },
      title: `PostgreSQL ${found.version} in ${folder}`,
    },
  }
}

export function clusterFolder({ dataDir }: Pick<StackPaths, 'dataDir'>): string {
  return join(dataDir, 'postgres')
}

/** Short, since socket paths are limited. For root it is in /run itself: the server's user may not enter root's own folder there. */
export function socketFolderOf({ dataDir, runDir }: Pick<StackPaths, 'dataDir' | 'runDir'>): string {
  const key = sha256OfParts(dataDir).slice(0, 8)
  return isRoot() && existsSync('/run') ? `/run/longhaul-postgres-${key}` : join(runDir, `postgres-${key}`)
}

/** Creates the files if there are none; writes the settings and the socket's folder. Safe to repeat, also after a crash.
 *  @returns whether the files were created now */
export async function ensureCluster({ cluster, context }: ClusterWork): Promise<boolean> {
  const { folder } = cluster
  const isNew = !(await exists(join(folder, 'PG_VERSION')))
  if (isNew) {
    const unfinished = { ...cluster, folder: `${folder}.new` }
    await rm(unfinished.folder, { recursive: true, force: true })
    await makeOwnFolder(unfinished.folder, cluster)
    const settings = ['-U', ROLE, '-E', 'UTF8', '--locale=C', '--auth-local=peer', '--auth-host=reject']
    await requireCommand({
      what: 'Creating the database of the stack',
      ...clusterCommand(unfinished, 'initdb', [...settings, '--no-instructions']),
      timeoutMs: MAKE_TIMEOUT_MS,
      signal: context.signal,
    })
    await rename(unfinished.folder, folder)
  }
  await makeOwnFolder(cluster.socketFolder, cluster)
  // Peer authentication: the kernel names the user at the other end of the socket, so there is no password and no port.
  await writeSetting(cluster, 'pg_hba.conf', 'local all all peer map=longhaul\n')
  await writeSetting(cluster, 'pg_ident.conf', `longhaul "${userInfo().username}" ${ROLE}\n`)
  await writeSetting(cluster, 'postgresql.conf', settingsOf(cluster))
  return isNew
}

/** Runs the cluster during `use`, then stops it. */
export async function withCluster<T>({ cluster, context }: ClusterWork, use: () => Promise<T>): Promise<T> {
  const control = (what: string, ...args: string[]): Promise<unknown> =>
    requireCommand({
      what,
      ...clusterCommand(cluster, 'pg_ctl', [...args, '-w', '-t', String(START_TIMEOUT_S), '-s']),
      timeoutMs: (START_TIMEOUT_S + 10) * 1000,
      signal: context.signal,
    })
  await control('Starting the database of the stack', 'start', '-l', `${dataArgument(cluster)}/start.log`)
  try {
    return await use()
  } finally {
    await control('Stopping the database of the stack', 'stop', '-m', 'fast')
  }
}

/** Commands with which the supervisor runs the cluster and checks its readiness. */
export function clusterService(cluster: PrivateCluster): { command: string; args: string[]; isReady: string[] } {
  const { programs, socketFolder } = cluster
  return {
    ...clusterCommand(cluster, 'postgres', []),
    isReady: [join(programs, 'pg_isready'), '-q', '-t', '3', '-h', socketFolder, '-p', String(PORT), '-U', ROLE],
  }
}

/** Removes what a stopped cluster leaves outside its data directory. */
export async function removeSocketFolder(paths: StackPaths): Promise<void> {
  await rmdir(socketFolderOf(paths)).catch(() => undefined)
}

interface ClusterWork {
  cluster: PrivateCluster
  context: StepContext
}

/**
 * As root, the command drops its privileges first. The server's user may be unable to enter the folders above the data, such as `/root`:
 * the shell opens the data directory as root, and the program uses that descriptor.
 */
function clusterCommand(cluster: PrivateCluster, program: string, args: string[]): { command: string; args: string[] } {
  const path = join(cluster.programs, program)
  const given = ['-D', dataArgument(cluster), ...args]
  if (cluster.runsAs === null) return { command: path, args: given }
  const { uid, gid } = cluster.runsAs
  const script = `exec 3<"$0"; cd /; exec setpriv --reuid=${uid} --regid=${gid} --clear-groups -- "$@"`
  return { command: 'sh', args: ['-c', script, cluster.folder, path, ...given] }
}

function dataArgument({ runsAs, folder }: PrivateCluster): string {
  return runsAs === null ? folder : '/proc/self/fd/3'
}

function settingsOf({ socketFolder }: PrivateCluster): string {
  return [
    '# Written at each start of the stack. Settings of your own belong into local.conf beside this file.',
    "listen_addresses = ''",
    `unix_socket_directories = '${socketFolder}'`,
    'unix_socket_permissions = 0700',
    // Each of the server's four services opens up to 40 (`temporal-server-files.ts`).
    'max_connections = 200',
    "log_timezone = 'UTC'",
    "timezone = 'UTC'",
    "log_line_prefix = '%m [%p] '",
    'log_checkpoints = off',
    "include_if_exists = 'local.conf'",
    '',
  ].join('\n')
}

async function writeSetting(cluster: PrivateCluster, name: string, text: string): Promise<void> {
  const path = join(cluster.folder, name)
  await writeFile(path, text, { mode: 0o600 })
  await giveTo(path, cluster)
}

/** Ensures that no other user can enter the folder or has created it, as is possible in /tmp. */
async function makeOwnFolder(path: string, cluster: PrivateCluster): Promise<void> {
  await makeDirectory(path, { mode: 0o700 })
  const own = process.getuid?.() ?? 0
  const owners = new Set([own, cluster.runsAs?.uid ?? own])
  for (const place of [dirname(path), path]) {
    const { uid } = await stat(place)
    // The parent may belong to root, as system folders do.
    if (owners.has(uid) || (uid === 0 && place !== path)) continue
    throw failed(`${place} belongs to user ${uid}: remove it, or set LONGHAUL_HOME to a directory of your own`)
  }
  await chmod(path, 0o700)
  await giveTo(path, cluster)
}

async function giveTo(path: string, { runsAs }: PrivateCluster): Promise<void> {
  if (runsAs !== null) await chown(path, runsAs.uid, runsAs.gid)
}

async function serverUser(): Promise<{ uid: number; gid: number }> {
  const ask = async (flag: string): Promise<number> => {
    const { exitCode, stdout } = await runCommand({ command: 'id', args: [flag, SERVER_USER], timeoutMs: 10_000 })
    const id = Number(stdout.trim())
    if (exitCode === 0 && Number.isInteger(id) && id > 0) return id
    throw failed(
      `PostgreSQL does not run as root, and this machine has no user ${SERVER_USER}: useradd --system ${SERVER_USER}`,
    )
  }
  return { uid: await ask('-u'), gid: await ask('-g') }
}

/** @param major major version of the data files; null takes the newest */
async function findPostgres(major: number | null): Promise<{ programs: string; version: string }> {
  const seen: string[] = []
  for (const programs of await candidates()) {
    const { exitCode, stdout } = await runCommand({
      command: join(programs, 'postgres'),
      args: ['--version'],
      timeoutMs: 10_000,
    })
    const version = /(\d+(?:\.\d+)+)/.exec(stdout)?.[1]
    if (exitCode !== 0 || version === undefined) continue
    seen.push(`${version} in ${programs}`)
    const itsMajor = Number.parseInt(version, 10)
    if (major === null ? itsMajor >= OLDEST_MAJOR : itsMajor === major) return { programs, version }
  }
  const found = seen.length === 0 ? 'found none' : `found ${seen.join(', ')}`
  throw failed(
    major === null
      ? `Expected PostgreSQL ${OLDEST_MAJOR} or newer for --temporal postgres, ${found}: apt-get install postgresql, or name a server with --temporal postgres://USER@HOST/temporal`
      : `The database of this stack was made with PostgreSQL ${major}, ${found}: apt-get install postgresql-${major}`,
  )
}

/** Whether PostgreSQL is installed, in any version. */
export async function hasPostgres(): Promise<boolean> {
  return (await candidates()).length > 0
}

async function candidates(): Promise<string[]> {
  const majors = (await readdir(DEBIAN_FOLDER).catch(() => [])).filter((name) => /^\d+$/.test(name))
  const folders = majors.toSorted((a, b) => Number(b) - Number(a)).map((name) => join(DEBIAN_FOLDER, name, 'bin'))
  const onPath = findProgram('postgres')
  if (onPath !== null) folders.push(dirname(await realpath(onPath)))
  return [...new Set(folders)].filter((folder) => existsSync(join(folder, 'initdb')))
}

function failed(message: string): LonghaulError {
  return new LonghaulError({ code: 'Stack.SetupFailed', message })
}
