import { spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { withDirectoryLock } from '../platform/directory-lock.ts'
import { LonghaulError } from '../contracts/errors.ts'
import { stopStack } from './down.ts'
import { rotateLog, tailOf, writeFileAtomically } from '../platform/files.ts'
import { readCodecKeys } from '../platform/payload-codec.ts'
import { openPortReservations } from '../platform/ports.ts'
import { configureStack } from './configure-stack.ts'
import { plannedEnvironment, withAbsolutePaths } from './environment.ts'
import { emptyBoard, type SetUpBoard } from './steps.ts'
import { makeStackDirectories, stackPaths, type StackPaths, isCheckout, PACKAGE_ROOT } from './paths.ts'
import { namedTemporalServer } from '../platform/temporal-settings.ts'
import { identify, isAlive, type ProcessIdentity } from '../platform/processes.ts'
import { type WorkerRole, WORKER_ROLES, supervisorModule } from './services.ts'
import { engineFiles, noteEngineUser, releasePrivateEngine, engineUserKey } from './setup/private-engine.ts'
import { findEngine } from './setup/engine.ts'
import { setUp, type StackPart } from './setup/set-up.ts'
import {
  describeElsewhere,
  findElsewhere,
  livingServices,
  readStackRecord,
  type ServiceRecord,
  type StackRecord,
} from './stack-record.ts'
import { differingSettings, givenSettings, type GivenSettings } from './given-settings.ts'
import { inspectNamespace, prepareNamespace } from './temporal-namespace.ts'
import { chooseStore, keepStore, parseTemporalStore } from './temporal-store.ts'
import { sha256OfParts } from '../platform/hash.ts'

/** All services answer within 15 s; a cold disk first reads half a gigabyte of Python packages. */
const READY_TIMEOUT_MS = 120_000
/** Longest time without a log line. */
const SILENCE_MS = 30_000
/** A service that ends this often before it is ready is broken, not slow. */
const MAX_EARLY_EXITS = 3

interface UpOptions {
  name?: string | undefined
  /** Where stacks keep their data. @default LONGHAUL_HOME or the user's data directory */
  home?: string | undefined
  /** Workers to start. @default all */
  roles?: readonly WorkerRole[]
  /** @default true, unless LONGHAUL_POLICY_URL names one */
  policyServer?: boolean
  /** Where the stack's own Temporal stores its runs: `development`, `postgres` or `postgres://…`. @default the stack's existing store, else
   *  development */
  temporal?: string | undefined
  /** One line at a time. @default stderr */
  log?: (line: string) => void
  signal?: AbortSignal | undefined
  /** Checks the variables that workers of these roles will read, as each worker does at its start. @default unchecked until they start
   *  @throws LonghaulError */
  checkWorkers?: ((env: NodeJS.ProcessEnv, roles: readonly WorkerRole[]) => Promise<void>) | undefined
  /** Progress for a display. @default none: the log repeats it now and then */
  board?: SetUpBoard | undefined
}

export interface UpResult {
  /** False if everything was already running. */
  changed: boolean
  /** Names of the settings that the running stack has with other values. Empty if it was started now. */
  differs: string[]
  stack: StackRecord
  setUpSeconds: number
}

/** Sets up what is missing, starts the stack under a supervisor that outlives this process, and waits until every part answers. If all of
 *  it is running already, changes nothing; after a crash, cleans up and starts again.
 *  @throws LonghaulError `Config.Invalid`, `Stack.SetupFailed`, `Temporal.Unreachable`, `Sandbox.EngineUnavailable` */
export async function up(options: UpOptions = {}): Promise<UpResult> {
  const paths = stackPaths({ name: options.name, home: options.home })
  const log = options.log ?? printToStderr
  const external = namedTemporalServer()
  const asked = options.temporal === undefined ? null : parseTemporalStore(options.temporal)
  if (external !== null && asked !== null) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `--temporal chooses the store of a server that the stack starts, and the environment names a server that runs already (${external.address}): leave out --temporal, or unset TEMPORAL_ADDRESS and TEMPORAL_PROFILE`,
    })
  }
  await makeStackDirectories(paths)
  const board = options.board ?? emptyBoard()
  // Another `up` may hold the lock for minutes.
  board.waiting = `another longhaul up or down of the stack "${paths.name}", or its last processes`
  const again = setInterval(() => {
    if (options.board === undefined && board.waiting !== '') log(`stack   waiting for ${board.waiting}`)
  }, SILENCE_MS)
  try {
    return await withDirectoryLock({ path: join(paths.dataDir, 'up.lock'), signal: options.signal }, () => {
      board.waiting = ''
      return upLocked({ ...options, log, paths, external, asked })
    })
  } finally {
    clearInterval(again)
    board.waiting = ''
  }
}

interface LockedOptions extends UpOptions {
  log: (line: string) => void
  paths: StackPaths
  /** The server that the environment names; null if the stack starts its own. */
  external: ReturnType<typeof namedTemporalServer>
  /** The requested store; null without a request. */
  asked: ReturnType<typeof parseTemporalStore> | null
}

async function upLocked(options: LockedOptions): Promise<UpResult> {
  const { paths, log, signal, roles = WORKER_ROLES, board, external, asked } = options
  const policyServer = options.policyServer ?? (process.env['LONGHAUL_POLICY_URL'] ?? '') === ''
  const store = await chooseStore(paths, asked)
  const namespace =
    external?.namespace ?? process.env['LONGHAUL_NAMESPACE'] ?? process.env['TEMPORAL_NAMESPACE'] ?? 'default'
  // Checked first: an unreachable server must not cost minutes of setup.
  if (external !== null) await inspectNamespace(external)

  const fingerprint = await codeFingerprint()
  const given = givenSettings({ roles })
  const running = await currentStack({ paths, fingerprint, log })
  if (running !== null) return { changed: false, ...compareSettings(running, given, log), setUpSeconds: 0 }
  // Otherwise everything would start, for a worker that ends three times with the same message.
  await options.checkWorkers?.(plannedEnvironment(paths), roles)
  readCodecKeys()

  const files = engineFiles(paths)
  const key = engineUserKey(paths)
  const reservations = openPortReservations(paths.portsDir)
  let supervisor: ProcessIdentity | null = null
  try {
    const prepared = await setUp({
      paths,
      parts: partsFor({ roles, policyServer }),
      engineUser: { key, owner: identify(process.pid) },
      log,
      signal,
      board,
      store,
    })
    const config = await configureStack({
      paths,
      prepared,
      roles,
      policyServer,
      namespace,
      fingerprint,
      given,
      reservations,
    })
    if (config.ownsTemporal && store.kind === 'development') await keepStore(paths, store, null)
    await writeFileAtomically(paths.configFile, `${JSON.stringify(config, null, 2)}\n`)
    supervisor = await startSupervisor(paths)
    if (config.ownsEngine) await noteEngineUser({ files, user: { key, owner: supervisor } })
    const address = { address: config.facts.temporalAddress, namespace }
    await waitFor({ paths, supervisor, signal, log, board, only: 'temporal' })
    // The development server creates its namespace itself.
    await prepareNamespace({
      ...address,
      raiseRetention: config.ownsTemporal,
      mayCreate: config.ownsTemporal && store.kind === 'postgres',
    })
    const stack = await waitFor({ paths, supervisor, signal, log, board })
    return { changed: true, differs: [], stack, setUpSeconds: prepared.seconds }
  } catch (error) {
    // Stops what was started; errors of that must not replace the original error.
    if (supervisor !== null) await stopStack({ paths, supervisor }).catch(() => undefined)
    else await releasePrivateEngine({ files, key }).catch(() => undefined)
    throw error
  } finally {
    await reservations.release()
  }
}

/** The stack if it is healthy and runs this very code; otherwise stops what is left and returns null. */
async function currentStack(input: {
  paths: StackPaths
  fingerprint: string
  log: (line: string) => void
}): Promise<StackRecord | null> {
  const { paths, fingerprint, log } = input
  const record = await readStackRecord(paths.recordFile)
  if (record === null) return null
  const elsewhere = await findElsewhere(record, paths.recordFile)
  if (elsewhere !== null) {
    const { host, isLiving } = elsewhere
    const otherwise = 'name another stack with LONGHAUL_STACK, or another directory with LONGHAUL_HOME'
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected one machine for each stack, but ${describeElsewhere(paths.name, elsewhere)}: ${
        isLiving
          ? `use it there, or ${otherwise}`
          : `if nothing of it runs there any more, longhaul down forgets it; otherwise ${otherwise}`
      }`,
      details: { directory: paths.dataDir, host },
    })
  }
  const isSupervised = isAlive(record.supervisor)
  if (isSupervised && record.fingerprint === fingerprint && record.services.every(({ state }) => state === 'ready')) {
    log(`stack   "${paths.name}" runs already`)
    return record
  }
  const left = livingServices(record).length
  if (isSupervised)
    log(`stack   "${paths.name}" runs older code or is not healthy: restarting it (runs continue automatically)`)
  else if (left > 0) log(`stack   the supervisor of "${paths.name}" had died: stopping the ${left} processes it left`)
  // Keeps the engine: the following setup renews its user registration.
  await stopStack({ paths, keepEngine: true, keepContainers: await mayKeepContainers({ paths, record, fingerprint }) })
  return null
}

/** Processes keep the variables that they were started with. A restart by itself would surprise the users of a shared stack. */
function compareSettings(
  stack: StackRecord,
  given: GivenSettings,
  log: (line: string) => void,
): Pick<UpResult, 'stack' | 'differs'> {
  const differs = stack.given === undefined ? [] : differingSettings(stack.given, given)
  if (differs.length > 0) {
    log(
      `stack   it was started with other values of ${differs.join(', ')}, and keeps them: longhaul down, then longhaul up (runs continue)`,
    )
  }
  return { stack, differs }
}

/**
 * Whether the new workers can continue in the sandboxes of the old ones: that needs the same code and the same engine. The reaper removes
 * orphaned sandboxes.
 */
async function mayKeepContainers(input: {
  paths: StackPaths
  record: StackRecord
  fingerprint: string
}): Promise<boolean> {
  const { paths, record, fingerprint } = input
  if (record.fingerprint !== fingerprint) return false
  const reachable = await findEngine().catch(() => null)
  return record.facts.dockerHost === (reachable ?? `unix://${engineFiles(paths).socket}`)
}

function partsFor({ roles, policyServer }: { roles: readonly WorkerRole[]; policyServer: boolean }): StackPart[] {
  const parts: StackPart[] = ['temporal']
  if (roles.includes('sandbox')) parts.push('engine')
  if (policyServer || roles.includes('trainer')) parts.push('python')
  if (roles.includes('control')) parts.push('bundle')
  return parts
}

async function startSupervisor(paths: StackPaths): Promise<ProcessIdentity> {
  const logFile = join(paths.logsDir, 'supervisor.log')
  await rotateLog(logFile)
  const log = openSync(logFile, 'a')
  const child = spawn(process.execPath, [supervisorModule(), paths.configFile], {
    stdio: ['ignore', log, log],
    detached: true,
    cwd: paths.dataDir,
    env: withAbsolutePaths(process.env),
  })
  closeSync(log)
  const spawned = new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve)
    child.once('error', reject)
  })
  await spawned
  child.unref()
  return identify(child.pid ?? 0)
}

interface WaitInput {
  paths: StackPaths
  supervisor: ProcessIdentity
  signal: AbortSignal | undefined
  log: (line: string) => void
  board: SetUpBoard | undefined
  /** One service instead of all; a stack without it does not wait. */
  only?: string
}

async function waitFor(input: WaitInput): Promise<StackRecord> {
  const { board = emptyBoard(), log } = input
  const again = setInterval(() => {
    if (input.board === undefined) log(`stack   waiting for ${board.waiting}`)
  }, SILENCE_MS)
  try {
    return await waitUntilReady({ ...input, board })
  } finally {
    clearInterval(again)
    board.waiting = ''
  }
}

async function waitUntilReady(input: WaitInput & { board: SetUpBoard }): Promise<StackRecord> {
  const { paths, supervisor, signal, only, board } = input
  const deadline = Date.now() + READY_TIMEOUT_MS
  for (;;) {
    signal?.throwIfAborted()
    const record = await readStackRecord(paths.recordFile)
    const isOurs = record?.supervisor.pid === supervisor.pid
    const awaited = isOurs ? record.services.filter(({ name }) => only === undefined || name === only) : null
    const open = awaited?.filter(({ state }) => state !== 'ready').map(({ name }) => name) ?? ['the supervisor']
    board.waiting = open.join(', ')
    if (record !== null && awaited?.every(({ state }) => state === 'ready') === true) return record
    const broken = awaited?.find(({ state, restarts }) => state !== 'ready' && restarts >= MAX_EARLY_EXITS)
    if (broken !== undefined) throw await notReady(broken, `it ended ${broken.restarts} times (${broken.lastExit})`)
    if (!isAlive(supervisor)) throw await supervisorDied(paths)
    if (Date.now() > deadline) {
      const slow = awaited?.find(({ state }) => state !== 'ready')
      throw slow === undefined
        ? await supervisorDied(paths)
        : await notReady(slow, `it did not answer within ${READY_TIMEOUT_MS / 1000} s`)
    }
    await sleep(100)
  }
}

async function notReady(service: ServiceRecord, why: string): Promise<LonghaulError> {
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `The ${service.name} of the local stack did not come up: ${why}. The end of ${service.log}:\n${withShortLines(await tailOf(service.log, 25))}`,
  })
}

/** Some servers log a whole stack trace in one line. */
function withShortLines(text: string): string {
  return text.replaceAll(/^(.{400}).+$/gm, '$1…')
}

async function supervisorDied(paths: StackPaths): Promise<LonghaulError> {
  const log = join(paths.logsDir, 'supervisor.log')
  return new LonghaulError({
    code: 'Stack.SetupFailed',
    message: `The supervisor of the local stack ended early. The end of ${log}:\n${await tailOf(log)}`,
  })
}

function printToStderr(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** Hash of all code that the stack's processes run, so that `up` after an edit does not keep old code running. */
async function codeFingerprint(): Promise<string> {
  const parts: string[] = []
  for (const folder of [isCheckout() ? 'src' : 'dist', 'trainer/longhaul_trainer', 'package-lock.json']) {
    for (const file of await codeFiles(join(PACKAGE_ROOT, folder))) {
      parts.push(relative(PACKAGE_ROOT, file), await readFile(file, 'utf8').catch(() => ''))
    }
  }
  return sha256OfParts(...parts).slice(0, 16)
}

async function codeFiles(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => null)
  if (entries === null) return [path]
  return entries
    .filter((entry) => entry.isFile() && /\.(ts|js|py|sh)$/.test(entry.name) && !entry.name.includes('.test.'))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
}
