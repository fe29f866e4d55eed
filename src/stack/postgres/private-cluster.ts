/** PostgreSQL of one stack: its files lie in the stack's data directory, and only the stack's user reaches it, through a socket. */
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

/** Older ones are not tested by Temporal any more. */
const OLDEST_MAJOR = 15
/** Where Debian and Ubuntu put the programs, a folder for each major version. */
const DEBIAN_FOLDER = '/usr/lib/postgresql'
/** PostgreSQL refuses to run as root: Debian's package brings this user. */
const SERVER_USER = 'postgres'
/** The only role, which owns everything. */
const ROLE = 'temporal'
/** A name, not a port: the socket's file ends with it. */
const PORT = 5432
/** Two seconds here; recovery after a crash reads the log of the last minutes first. */
const START_TIMEOUT_S = 120
const MAKE_TIMEOUT_MS = 120_000

export interface PrivateCluster {
  /** Its files. */
  folder: string
  socketFolder: string
  /** `initdb`, `pg_ctl`, `postgres`, … */
  programs: string
  /** As `15.18`. */
  version: string
  /** Whom its processes run as; null: as this process. */
  runsAs: { uid: number; gid: number } | null
  /** Names and places for the Temporal server. */
  address: DatabaseAddress
}

/** What the kernel and the directories of `paths` allow; makes nothing.
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

/** Short, as paths of sockets must be. Root's lies in /run itself, since the server's user may not enter root's own folder there. */
export function socketFolderOf({ dataDir, runDir }: Pick<StackPaths, 'dataDir' | 'runDir'>): string {
  const key = sha256OfParts(dataDir).slice(0, 8)
  return isRoot() && existsSync('/run') ? `/run/longhaul-postgres-${key}` : join(runDir, `postgres-${key}`)
}

/** Its files where there are none yet, its settings and its socket's folder. Safe to repeat, also after a crash.
 *  @returns whether the files were made now */
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
  // The kernel says who is at the other end of the socket; there is no password to keep, and no port.
  await writeSetting(cluster, 'pg_hba.conf', 'local all all peer map=longhaul\n')
  await writeSetting(cluster, 'pg_ident.conf', `longhaul "${userInfo().username}" ${ROLE}\n`)
  await writeSetting(cluster, 'postgresql.conf', settingsOf(cluster))
  return isNew
}

/** Runs it for the time of `use`, and stops it again. */
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

/** How the supervisor runs it, and asks whether it answers. */
export function clusterService(cluster: PrivateCluster): { command: string; args: string[]; isReady: string[] } {
  const { programs, socketFolder } = cluster
  return {
    ...clusterCommand(cluster, 'postgres', []),
    isReady: [join(programs, 'pg_isready'), '-q', '-t', '3', '-h', socketFolder, '-p', String(PORT), '-U', ROLE],
  }
}

/** What is left of a stopped one outside of its folder. */
export async function removeSocketFolder(paths: StackPaths): Promise<void> {
  await rmdir(socketFolderOf(paths)).catch(() => undefined)
}

interface ClusterWork {
  cluster: PrivateCluster
  context: StepContext
}

/**
 * As root: gives up its rights first. The server's user may not enter the folders above the data (`/root`, say), and needs not: the shell
 * opens the folder while it is root, and the program reaches it through that descriptor.
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

/** Other users of the machine may neither enter it nor have made it: a folder in /tmp could be theirs. */
async function makeOwnFolder(path: string, cluster: PrivateCluster): Promise<void> {
  await makeDirectory(path, { mode: 0o700 })
  const own = process.getuid?.() ?? 0
  const owners = new Set([own, cluster.runsAs?.uid ?? own])
  for (const place of [dirname(path), path]) {
    const { uid } = await stat(place)
    // Folders of the system are root's.
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

/** @param major what the files were made with; null takes the newest */
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

/** Whether a PostgreSQL is here that could be used. */
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
