/**
 * A Slurm cluster of one node: munge, slurmctld and slurmd, and on request slurmdbd with a MariaDB that keeps accounts, all with their own
 * keys, ports and folders. Programs are the machine's, or Debian's packages unpacked into the user cache; nothing is installed. Needs
 * root, like slurmd.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { sha256Hex } from '../../src/platform/hash.ts'
import { freePort } from './loopback.ts'

const run = promisify(execFile)
const LIBRARIES = 'usr/lib/x86_64-linux-gnu'
const PACKAGES = [
  'libhwloc15',
  'liblua5.1-0',
  'libmunge2',
  'munge',
  'slurm-wlm-basic-plugins',
  'slurm-client',
  'slurmctld',
  'slurmd',
  'slurmdbd',
  'slurm-wlm-mysql-plugin',
  'libmariadb3',
  'mariadb-client-core',
  'mariadb-server-core',
  'libaio1',
  'libnuma1',
  'libpmem1',
  'libsnappy1v5',
  'liburing2',
]

export interface Slurm {
  /** PATH, SLURM_CONF and library path of the client commands. */
  environment: Record<string, string>
  command(tool: string, ...args: string[]): Promise<string>
  stop(): Promise<void>
}

/** Root folder of the programs, or why they are missing. */
export async function findSlurm(): Promise<{ root: string } | { missing: string }> {
  if (process.getuid?.() !== 0) return { missing: 'slurmd needs root' }
  if (existsSync('/usr/sbin/slurmd-wlm') && existsSync('/usr/sbin/munged')) return { root: '/' }
  const cache = process.env['LONGHAUL_CACHE'] ?? join(process.env['HOME'] ?? '/root', '.cache/longhaul')
  const root = join(cache, `slurm-${sha256Hex(PACKAGES.join(' ')).slice(0, 12)}`)
  if (existsSync(root)) return { root }
  try {
    await unpackPackages(root)
    return { root }
  } catch (error) {
    return { missing: `Slurm is not installed and its packages cannot be had: ${String(error).slice(0, 200)}` }
  }
}

async function unpackPackages(root: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'slurm-packages-'))
  try {
    await run('apt-get', ['download', ...PACKAGES], { cwd: work, timeout: 120_000 })
    for (const name of await readdir(work)) {
      await run('dpkg-deb', ['--extract', join(work, name), join(work, 'root')], { timeout: 60_000 })
    }
    await mkdir(join(root, '..'), { recursive: true })
    const mine = `${root}.${process.pid}`
    await cp(join(work, 'root'), mine, { recursive: true, verbatimSymlinks: true })
    // A concurrent second caller finds the folder in place.
    await rename(mine, root).catch(() => rm(mine, { recursive: true, force: true }))
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

export interface SlurmOptions {
  /** Keeps accounts, which `sacct` reads, and forgets an ended job within seconds. */
  accounts?: boolean
}

/** Whether the programs for accounts are there; a machine with a Slurm of its own may lack them. */
export function hasAccounts(root: string): boolean {
  return ['slurmdbd', 'mariadbd'].every((program) => existsSync(join(root, 'usr/sbin', program)))
}

export async function startSlurm(root: string, { accounts = false }: SlurmOptions = {}): Promise<Slurm> {
  const home = await mkdtemp(join(tmpdir(), 'slurm-'))
  for (const name of ['state', 'spool', 'log']) await mkdir(join(home, name))
  await writeFile(join(home, 'munge.key'), randomBytes(1024), { mode: 0o400 })
  const plugins = join(root, LIBRARIES, 'slurm-wlm')
  const conf = join(home, 'slurm.conf')
  const accountsPort = accounts ? await freePort() : null
  await writeFile(conf, configuration({ home, plugins, accountsPort, ports: [await freePort(), await freePort()] }))
  const environment = {
    SLURM_CONF: conf,
    LD_LIBRARY_PATH: `${join(root, LIBRARIES)}:${plugins}`,
    PATH: `${join(root, 'usr/bin')}:${process.env['PATH']}`,
  }
  const daemons: ChildProcess[] = []
  const start = (program: string, ...args: string[]): void => {
    // A daemon knows by its name what it is; Debian's alternatives give it the one without the package's ending.
    const options = {
      argv0: program.replace(/-wlm$/, ''),
      env: { ...process.env, ...environment },
      stdio: 'ignore' as const,
    }
    daemons.push(spawn(join(root, 'usr/sbin', program), args, options))
  }
  const command = async (tool: string, ...args: string[]): Promise<string> =>
    (await run(tool, args, { env: { ...process.env, ...environment }, timeout: 30_000 })).stdout.trim()
  const stop = async (): Promise<void> => {
    await command('scancel', '--user=root', '--signal=KILL', '--full').catch(() => undefined)
    for (const daemon of daemons.reverse()) {
      const ended = new Promise((resolve) => daemon.once('exit', resolve))
      if (daemon.exitCode !== null || !daemon.kill('SIGTERM')) continue
      const timer = setTimeout(() => daemon.kill('SIGKILL'), 10_000)
      await ended
      clearTimeout(timer)
    }
    await rm(home, { recursive: true, force: true, maxRetries: 3 })
  }
  const place = (name: string): string => join(home, name)
  start(
    'munged',
    '--foreground',
    // Parent folders may be closed to other users, but all callers are root.
    '--force',
    `--socket=${place('munge.sock')}`,
    `--key-file=${place('munge.key')}`,
    `--pid-file=${place('munged.pid')}`,
    `--log-file=${place('log/munged.log')}`,
    `--seed-file=${place('munge.seed')}`,
  )
  for (const until = Date.now() + 10_000; !existsSync(place('munge.sock')) && Date.now() < until; ) await sleep(50)
  try {
    if (accountsPort !== null) await startAccounts({ root, home, plugins, port: accountsPort, environment, start })
    start('slurmctld-wlm', '-D', '-f', conf)
    start('slurmd-wlm', '-D', '-N', 'localhost', '-d', join(root, 'usr/sbin/slurmstepd-wlm'), '-f', conf)
    for (const until = Date.now() + 60_000; ; ) {
      const state = await command('sinfo', '--noheader', '--format=%T').catch(String)
      if (state === 'idle') break
      if (Date.now() > until) throw new Error(`no idle node within a minute: ${state}\n${await lastLines(home)}`)
      await sleep(200)
    }
  } catch (error) {
    await stop()
    throw error
  }
  return { environment, command, stop }
}

/** Polls until Slurm, or a job in it, has come so far. */
export async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const deadline = Date.now() + 120_000; !(await isSo()); ) {
    assert.ok(Date.now() < deadline, 'did not come within two minutes')
    await sleep(100)
  }
}

async function lastLines(home: string): Promise<string> {
  const texts = ['slurmctld', 'slurmd'].map((name) => readFile(join(home, 'log', `${name}.log`), 'utf8').catch(String))
  return (await Promise.all(texts)).map((text) => text.slice(-1500)).join('\n')
}

/** MariaDB without users on loopback, and slurmdbd, which needs its file closed to others and beside the cluster's. */
async function startAccounts(input: {
  root: string
  home: string
  plugins: string
  port: number
  environment: Record<string, string>
  start: (program: string, ...args: string[]) => void
}): Promise<void> {
  const { root, home, plugins, port, environment, start } = input
  const data = join(home, 'database')
  const databasePort = await freePort()
  await run(
    join(root, 'usr/bin/mariadb-install-db'),
    ['--no-defaults', `--basedir=${join(root, 'usr')}`, `--datadir=${data}`, '--user=root', '--skip-test-db'],
    { env: { ...process.env, ...environment }, timeout: 120_000 },
  )
  start(
    'mariadbd',
    '--no-defaults',
    `--basedir=${join(root, 'usr')}`,
    `--datadir=${data}`,
    `--socket=${join(home, 'database.sock')}`,
    `--port=${databasePort}`,
    '--bind-address=127.0.0.1',
    '--skip-grant-tables',
    '--skip-networking=0',
    '--user=root',
  )
  await listening(databasePort)
  const file = join(home, 'slurmdbd.conf')
  await writeFile(
    file,
    `AuthType=auth/munge
AuthInfo=socket=${home}/munge.sock
DbdHost=localhost
DbdPort=${port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=${databasePort}
StorageUser=root
StorageLoc=accounts
PluginDir=${plugins}
LogFile=${home}/log/slurmdbd.log
PidFile=${home}/slurmdbd.pid
`,
    { mode: 0o600 },
  )
  start('slurmdbd', '-D')
  await listening(port)
}

async function listening(port: number): Promise<void> {
  for (const until = Date.now() + 60_000; !(await accepts(port)); await sleep(100)) {
    if (Date.now() > until) throw new Error(`nothing listens on port ${port} within a minute`)
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    }).on('error', () => resolve(false))
  })
}

function configuration(input: {
  home: string
  plugins: string
  accountsPort: number | null
  ports: [number, number]
}): string {
  const { home, plugins, accountsPort, ports } = input
  const accounting =
    accountsPort === null
      ? 'AccountingStorageType=accounting_storage/none\nMinJobAge=300'
      : `AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=localhost\nAccountingStoragePort=${accountsPort}\nAccountingStoragePass=${home}/munge.sock\nMinJobAge=2`
  const processors = availableParallelism()
  return `ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
AuthType=auth/munge
AuthInfo=socket=${home}/munge.sock
SlurmUser=root
SlurmdUser=root
StateSaveLocation=${home}/state
SlurmdSpoolDir=${home}/spool
SlurmctldPidFile=${home}/slurmctld.pid
SlurmdPidFile=${home}/slurmd.pid
SlurmctldLogFile=${home}/log/slurmctld.log
SlurmdLogFile=${home}/log/slurmd.log
PluginDir=${plugins}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
${accounting}
SelectType=select/linear
SchedulerType=sched/builtin
MpiDefault=none
ReturnToService=2
KillWait=5
NodeName=localhost CPUs=${processors} Sockets=1 CoresPerSocket=${processors} ThreadsPerCore=1 State=UNKNOWN
PartitionName=test Nodes=localhost Default=YES MaxTime=INFINITE State=UP
`
}
