/**
 * A stack whose every part can be disturbed: Temporal's development server with its database file, the product's workers (each behind
 * its own TCP proxy), the scripted policy server, one or two private engines, and artifacts on their own disk.
 */
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import { Connection } from '@temporalio/client'
import { createDirectoryStore } from '../../../src/adapters/artifacts/directory-store.ts'
import { connect, type LonghaulConnection } from '../../../src/client/index.ts'
import type { ArtifactStore } from '../../../src/contracts/artifacts.types.ts'
import { QUEUES } from '../../../src/contracts/workflow-ids.ts'
import { stackPaths } from '../../../src/stack/paths.ts'
import { choosePort, accepts } from '../../../src/platform/ports.ts'
import { identify, signalProcess } from '../../../src/platform/processes.ts'
import { temporalService } from '../../../src/stack/services.ts'
import { setUp } from '../../../src/stack/setup/set-up.ts'
import { hasPoller } from '../../../src/stack/temporal-namespace.ts'
import type { Role } from '../../../src/workers/run-worker.ts'
import { type ArtifactDisk, mountArtifactDisk } from './artifact-disk.ts'
import { buildChaosBundle, HEARTBEAT_MS } from './chaos-bundle.ts'
import { type ChaosBucket, startChaosBucket } from './chaos-bucket.ts'
import { type ChaosPods, startChaosPods } from './chaos-pods.ts'
import { type ContainerJournal, readJournal } from './container-journal.ts'
import { clearDeadStacks, noteStackOwner, STACK_PREFIX } from './dead-stacks.ts'
import { livingProcesses, untilStopped } from './effects.ts'
import { ManagedProcess } from './managed-process.ts'
import { startTestEngine, type TestEngine } from './private-test-engine.ts'
import { startTcpProxy, type TcpProxy } from './tcp-proxy.ts'
import { listTrainingJobs } from '../../../src/stack/down.ts'
import { startVisits, type Visits } from './visits.ts'

export type ChaosRole = Role | 'sandbox-b' | 'sandbox-spare'
/** Policy servers with the same script. Runs whose faults need a replica sample from both, all others from the first. */
export const POLICY_SERVERS = ['policy', 'policy-b'] as const
export type PolicyProcess = (typeof POLICY_SERVERS)[number]
export type ChaosProcess = ChaosRole | 'temporal' | PolicyProcess

export const PLANTS = ['double-step'] as const
export type Plant = (typeof PLANTS)[number]

/** Kinds of store for a stack's records. */
export const STORES = ['directory', 's3'] as const
export type StoreKind = (typeof STORES)[number]

/** Where agents' sandboxes run while faults strike. */
export const SANDBOXES = ['containers', 'pods'] as const
export type SandboxKind = (typeof SANDBOXES)[number]

/** Settings of the fault matrix: a kind of store with sandboxes in containers, or pods with records on disk. */
export const SETTINGS = [...STORES, 'pods'] as const
export type Setting = (typeof SETTINGS)[number]

export interface ChaosStack {
  artifactsDir: string
  policyUrls: Readonly<Record<PolicyProcess, string>>
  /** Folder in which both servers store their state and log their requests. */
  policyState: string
  logsDir: string
  /** The effects of workers, see `audit-log.ts`. */
  auditDir: string
  /** Journals of closed containers. */
  journals: readonly ContainerJournal[]
  python: string
  /** Python path of the trainer without a plant. */
  trainerPath: string
  /** A folder that no fault affects. */
  scratchDir: string
  /** `host:port` of the server itself, bypassing every proxy. */
  temporalAddress: string
  /** How long Temporal, or the network to it, is unavailable. */
  outageMs: number
  store: ArtifactStore
  /** @throws if the records are on disk */
  bucket(): ChaosBucket
  /** @throws if the sandboxes are containers */
  pods(): ChaosPods
  /** Where sandboxes run while faults strike; runs without faults are played in containers. */
  sandboxes: SandboxKind
  /** Makes the host's worker place sandboxes there from now on. The worker restarts if this is a change. */
  placeSandboxes(kind: SandboxKind): Promise<void>
  /** Sets how long activities wait for an unavailable or full artifact store. Their workers restart if this is a change. */
  setStorePatience(seconds: number): Promise<void>
  /** The file of a record: on disk, or below the bucket's server. */
  fileOf(key: string): string
  connection: LonghaulConnection
  visits: Visits
  disk: ArtifactDisk
  /** `a` always exists, `b` only while a second host is requested. */
  engines: { a: TestEngine; b: TestEngine | null }
  process(name: ChaosProcess): ManagedProcess
  proxy(role: ChaosRole): TcpProxy
  /** Starts or restarts a worker and waits until it polls. */
  startWorker(role: ChaosRole): Promise<void>
  stopWorker(role: ChaosRole): Promise<void>
  /** Adds another host with its own engine. */
  addHost(): Promise<void>
  /** Pids of all running processes. */
  livingPids(): number[]
  /** Sends SIGKILL to every process of the stack and to its engine at once; then all of them start again. */
  crash(): Promise<void>
  /** Kills the server, deletes its database and starts a new server. @returns how many files were deleted */
  loseDatabase(): Promise<number>
  /** Copies the server's database while the server is stopped by a signal, as a snapshot of its disk would. */
  copyDatabase(): Promise<void>
  /** Kills the server and, as docs/reliability.md asks, the control worker, replaces the database with the last copy and starts both. @returns how many files were replaced */
  restoreDatabase(): Promise<number>
  /** Deletes the output of earlier trainings, because the disk is in memory. */
  clearRuns(): Promise<void>
  /** Switches the trainer's planted mistake on or off. */
  usePlant(isUsed: boolean): Promise<void>
  /** Waits until every part that should run answers. */
  settle(): Promise<void>
  close(): Promise<void>
}

const NAMESPACE = 'default'
/** Attempts that each wait this long outlast the absence of every store that returns. */
export const STORE_PATIENCE_S = 15
const HERE = fileURLToPath(new URL('.', import.meta.url))
const TRAINER = fileURLToPath(new URL('../../../trainer', import.meta.url))

export async function startChaosStack({
  training,
  outageMs = 2.5 * HEARTBEAT_MS,
  plant = null,
  store = 'directory',
  sandboxes = 'containers',
  say,
}: {
  /** Includes the trainer and its Python environment. */
  training: boolean
  /** @default so long that work in progress was abandoned and started again before the end */
  outageMs?: number
  /** A folder of `plants/`: a mistake in the trainer that the comparison must detect. @default none */
  plant?: Plant | null
  /** @default `directory` */
  store?: StoreKind
  /** `pods` starts the stack's own cluster. @default `containers` */
  sandboxes?: SandboxKind
  say: (line: string) => void
}): Promise<ChaosStack> {
  await clearDeadStacks({ root: tmpdir(), say })
  const folder = await mkdtemp(join(tmpdir(), STACK_PREFIX))
  await noteStackOwner(folder)
  const undo: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })]
  const close = async (): Promise<void> => {
    for (const step of undo.reverse()) await step().catch((error: unknown) => say(`closing: ${String(error)}`))
    undo.length = 0
  }
  try {
    return await open({ folder, training, outageMs, plant, store, sandboxes, say, undo, close })
  } catch (error) {
    await close()
    throw error
  }
}

async function open({
  folder,
  training,
  outageMs,
  plant,
  store: kind,
  sandboxes,
  say,
  undo,
  close,
}: {
  folder: string
  training: boolean
  outageMs: number
  plant: Plant | null
  store: StoreKind
  sandboxes: SandboxKind
  say: (line: string) => void
  undo: (() => Promise<unknown>)[]
  close: () => Promise<void>
}): Promise<ChaosStack> {
  const paths = stackPaths()
  const logsDir = join(folder, 'logs')
  const policyState = join(folder, 'policy')
  const auditDir = join(folder, 'audit')
  for (const path of [logsDir, policyState, auditDir, join(folder, 'a'), join(folder, 'b')]) await mkdir(path)
  const prepared = await setUp({
    paths,
    parts: training ? ['temporal', 'python'] : ['temporal'],
    engineUser: { key: `chaos-${process.pid}`, owner: identify(process.pid) },
    log: say,
  })
  if (prepared.temporal === null) throw new Error('Chaos hurts its own server: unset TEMPORAL_ADDRESS')
  const bundle = join(folder, 'bundle.js')
  await writeFile(bundle, await buildChaosBundle())
  const disk = await mountArtifactDisk(join(folder, 'artifacts'))
  undo.push(() => disk.close())
  const bucket = kind === 's3' ? await startChaosBucket() : null
  if (bucket !== null) undo.push(() => bucket.close())
  const imageCache = join(paths.cacheDir, 'images')
  const startEngine = async (name: 'a' | 'b'): Promise<TestEngine> => {
    const engine = await startTestEngine({ folder: join(folder, name), imageCache, log: say })
    undo.push(() => engine.close())
    return engine
  }
  const engines: ChaosStack['engines'] = { a: await startEngine('a'), b: null }
  const pods = sandboxes === 'pods' ? await startChaosPods({ folder }) : null
  if (pods !== null) undo.push(() => pods.close())
  let placed: SandboxKind = 'containers'
  const journals: ContainerJournal[] = []
  const visits = await startVisits({
    async observe({ phase, process: name, container }) {
      if (phase !== 'closing' || container === null) return
      const { engine } = (name === 'sandbox-b' ? engines.b : engines.a) ?? engines.a
      const isPod = pods !== null && placed === 'pods'
      const journal = await (isPod ? pods.readJournal(container) : readJournal({ engine, name: container }))
      if (journal !== null) journals.push(journal)
    },
  })
  undo.push(() => visits.close())

  const taken = new Set<number>()
  const port = (): Promise<number> => choosePort({ preferred: [], taken })
  const temporalPort = await port()
  const policyPorts = { policy: await port(), 'policy-b': await port() }
  const policyUrls = { policy: urlOf(policyPorts.policy), 'policy-b': urlOf(policyPorts['policy-b']) }
  const processes = new Map<string, ManagedProcess>()
  const proxies = new Map<string, TcpProxy>()
  const manage = (name: string, command: string, args: string[], env: Record<string, string>): ManagedProcess => {
    const managed = new ManagedProcess({ name, command, args, env, cwd: folder, log: join(logsDir, `${name}.log`) })
    processes.set(name, managed)
    undo.push(() => managed.stop())
    return managed
  }

  const server = temporalService({
    cli: prepared.temporal,
    dataDir: folder,
    port: temporalPort,
    uiPort: await port(),
    namespace: NAMESPACE,
    codecPort: null,
  })
  manage('temporal', server.command, [...server.args, '--headless'], server.env).start()
  const common = { CHAOS_CONTROL: visits.url }
  for (const name of POLICY_SERVERS) {
    manage(name, process.execPath, [join(HERE, 'scripted-policy.ts')], {
      ...common,
      CHAOS_PROCESS: name,
      CHAOS_PORT: String(policyPorts[name]),
      CHAOS_STATE: policyState,
    }).start()
  }
  await until(() => accepts('127.0.0.1', temporalPort), 'Temporal')
  const policiesAnswer = async (): Promise<void> => {
    for (const name of POLICY_SERVERS) await until(() => accepts('127.0.0.1', policyPorts[name]), name)
  }
  await policiesAnswer()
  const connection = await untilIt(() => connect({ address: `127.0.0.1:${temporalPort}`, namespace: NAMESPACE }))
  undo.push(() => connection.close())

  const plantSwitch = join(folder, 'plant')
  const python = plant === null ? (prepared.python ?? 'python3') : join(folder, 'planted-python')
  if (plant !== null) {
    // The worker sets the Python path of its jobs itself, so only the interpreter can carry the plant.
    const script = `#!/bin/sh\nPYTHONPATH=${join(HERE, 'plants', plant)}:$PYTHONPATH exec ${prepared.python} "$@"\n`
    await writeFile(python, script, { mode: 0o755 })
  }
  let storePatienceS = STORE_PATIENCE_S
  const workerEnvironment = (role: ChaosRole, address: string): Record<string, string> => ({
    ...common,
    CHAOS_PROCESS: role,
    CHAOS_ROLE: role.replace(/-.*/, ''),
    CHAOS_AUDIT: auditDir,
    LONGHAUL_TEMPORAL_ADDRESS: address,
    LONGHAUL_NAMESPACE: NAMESPACE,
    LONGHAUL_ARTIFACTS: bucket?.location ?? disk.path,
    LONGHAUL_WEIGHTS: join(folder, 'weights'),
    LONGHAUL_STORE_PATIENCE_S: String(storePatienceS),
    ...bucket?.environment,
    LONGHAUL_POLICY_URL: policyUrls.policy,
    LONGHAUL_PYTHON: python,
    LONGHAUL_BUNDLE: bundle,
    LONGHAUL_CACHE: imageCache,
    LONGHAUL_HOST_ID: role === 'sandbox-b' ? 'chaos-b' : 'chaos-a',
    DOCKER_HOST: role === 'sandbox-b' ? (engines.b?.host ?? '') : engines.a.host,
    PYTHONPATH: TRAINER,
    CHAOS_PLANT: plantSwitch,
    OMP_WAIT_POLICY: 'PASSIVE',
  })
  const polls = async (role: ChaosRole): Promise<boolean> => {
    const pid = processes.get(role)?.pid ?? null
    if (pid === null) return false
    const queue = QUEUES[role.replace(/-.*/, '') as Role]
    // A new connection, because the server may have been restarted.
    const asked = await Connection.connect({ address: `127.0.0.1:${temporalPort}`, connectTimeout: 2_000 })
    try {
      return await hasPoller(asked, { namespace: NAMESPACE, queue, pid })
    } finally {
      await asked.close()
    }
  }
  const startWorker = async (role: ChaosRole): Promise<void> => {
    if (!processes.has(role)) {
      const proxy = await startTcpProxy({ port: temporalPort })
      undo.push(() => proxy.close())
      proxies.set(role, proxy)
      manage(role, process.execPath, [join(HERE, 'chaos-worker.ts')], workerEnvironment(role, proxy.address))
    }
    const managed = processes.get(role)
    if (managed?.pid === null) managed.start()
    await until(() => polls(role), `worker ${role}`)
  }
  const changeWorker = async (role: ChaosRole, change: (env: Record<string, string>) => void): Promise<void> => {
    const managed = mustHave(processes.get(role), role)
    await managed.stop()
    change(managed.plan.env)
    await startWorker(role)
  }
  const placeSandboxes = async (place: SandboxKind): Promise<void> => {
    if (place === placed) return
    if (pods === null) throw new Error('The sandboxes of this stack are containers')
    if (place === 'pods') await pods.importTaskImages(engines.a.engine)
    await changeWorker('sandbox', (env) => {
      placed = place
      // Only for the worker in pods: a share of processors above the machine's would allow more containers than in other stacks.
      if (place === 'pods') Object.assign(env, pods.environment)
      else for (const name of Object.keys(pods.environment)) delete env[name]
    })
  }
  const roles: ChaosRole[] = ['control', 'sandbox', 'artifacts', 'trainer']
  await Promise.all(roles.map(startWorker))
  const setStorePatience = async (seconds: number): Promise<void> => {
    if (seconds === storePatienceS) return
    storePatienceS = seconds
    const wait = { LONGHAUL_STORE_PATIENCE_S: String(seconds) }
    await Promise.all(roles.map((role) => changeWorker(role, (env) => Object.assign(env, wait))))
    // The second host's worker runs only for runs that need it.
    Object.assign(processes.get('sandbox-b')?.plan.env ?? {}, wait)
  }

  const databaseCopy = join(folder, 'database-copy')
  const withoutServer = async (change: () => Promise<void>): Promise<void> => {
    const server = mustHave(processes.get('temporal'), 'temporal')
    await server.stop('SIGKILL')
    await change()
    server.start()
    await until(() => accepts('127.0.0.1', temporalPort), 'Temporal')
  }

  const stack: ChaosStack = {
    artifactsDir: disk.path,
    policyUrls,
    policyState,
    logsDir,
    auditDir,
    journals,
    python: prepared.python ?? 'python3',
    trainerPath: TRAINER,
    scratchDir: folder,
    temporalAddress: `127.0.0.1:${temporalPort}`,
    outageMs,
    store: bucket?.store ?? createDirectoryStore({ root: disk.path }),
    bucket() {
      if (bucket === null) throw new Error('The records of this stack lie on a disk')
      return bucket
    },
    pods() {
      if (pods === null) throw new Error('The sandboxes of this stack are containers')
      return pods
    },
    sandboxes,
    placeSandboxes,
    setStorePatience,
    fileOf: bucket?.fileOf ?? ((key) => join(disk.path, key)),
    connection,
    visits,
    disk,
    engines,
    process: (name) => mustHave(processes.get(name), name),
    proxy: (role) => mustHave(proxies.get(role), role),
    startWorker,
    stopWorker: (role) => mustHave(processes.get(role), role).stop(),
    async addHost() {
      engines.b = await startEngine('b')
      await startWorker('sandbox-b')
    },
    livingPids: () => [...processes.values()].flatMap(({ pid }) => (pid === null ? [] : [pid])),
    async crash() {
      const living = [...processes.values()].filter(({ pid }) => pid !== null)
      const jobs = listTrainingJobs({ artifactsDir: disk.path })
      for (const job of jobs) signalProcess(job, 'SIGKILL')
      await Promise.all([engines.a.crash(), ...living.map((one) => one.stop('SIGKILL'))])
      await engines.a.start()
      for (const one of living) one.start()
    },
    async loseDatabase() {
      const files = await databaseFiles(folder)
      await withoutServer(async () => {
        for (const name of files) await rm(join(folder, name))
      })
      return files.length
    },
    async copyDatabase() {
      const server = mustHave(processes.get('temporal'), 'temporal')
      const [identity = null] = livingProcesses([server]) ?? []
      server.signal('SIGSTOP')
      try {
        if (identity === null || !(await untilStopped(identity))) throw new Error('The server cannot be stopped')
        await rm(databaseCopy, { recursive: true, force: true })
        for (const name of await databaseFiles(folder)) await cp(join(folder, name), join(databaseCopy, name))
      } finally {
        server.signal('SIGCONT')
      }
    },
    async restoreDatabase() {
      const copied = await readdir(databaseCopy)
      const control = mustHave(processes.get('control'), 'control')
      await control.stop('SIGKILL')
      await withoutServer(async () => {
        for (const name of await databaseFiles(folder)) await rm(join(folder, name))
        for (const name of copied) await cp(join(databaseCopy, name), join(folder, name))
      })
      control.start()
      return copied.length
    },
    usePlant: (isUsed) => (isUsed ? writeFile(plantSwitch, '') : rm(plantSwitch, { force: true })),
    async clearRuns() {
      const store = disk.path
      for (const folderName of ['checkpoints', 'policies']) {
        const names = existsSync(join(store, folderName)) ? await readdir(join(store, folderName)) : []
        const trained = names.filter((name) => !name.startsWith('v000000-'))
        for (const name of trained) await rm(join(store, folderName, name), { recursive: true, force: true })
      }
    },
    async settle() {
      await until(() => accepts('127.0.0.1', temporalPort), 'Temporal')
      await policiesAnswer()
      for (const role of roles) await until(() => polls(role), `worker ${role}`)
    },
    close,
  }
  return stack
}

async function databaseFiles(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => /^temporal-.*\.db/.test(name))
}

const PATIENCE_MS = 60_000

async function until(condition: () => Promise<boolean>, what: string): Promise<void> {
  for (const deadline = Date.now() + PATIENCE_MS; Date.now() < deadline; await sleep(150)) {
    if (await condition().catch(() => false)) return
  }
  throw new Error(`Expected ${what} to answer within ${PATIENCE_MS / 1000} s`)
}

async function untilIt<T>(attempt: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + PATIENCE_MS; ; await sleep(150)) {
    try {
      return await attempt()
    } catch (error) {
      if (Date.now() > deadline) throw error
    }
  }
}

const urlOf = (port: number): string => `http://127.0.0.1:${port}`

function mustHave<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`The stack has no ${name}`)
  return value
}

/** Reason to skip if the machine does not allow private engines and mounts. */
export const needsChaos =
  process.getuid?.() === 0 && existsSync('/usr/sbin/dockerd') ? false : 'needs root and a Docker engine to start'
