import { readFile } from 'node:fs/promises'
import Docker from 'dockerode'
import { LonghaulError } from '../../../contracts/errors.ts'
import { withoutUser } from '../../../platform/quote-address.ts'

/** The newest Engine API this adapter was written against. An older engine is addressed in its own version. */
const NEWEST_API = '1.47'
/** Below this an engine's default seccomp profile breaks current C libraries (clone3). */
const OLDEST_ENGINE = '20.10.10'

interface ConnectEngineInput {
  /** `unix:///path`, `tcp://host:port`, … @default DOCKER_HOST, else the default socket */
  host?: string
  /** How long the engine may take to answer the first request. @default 10_000 */
  timeoutMs?: number
}

/** A reachable engine with the facts that later requests depend on. */
export interface Engine {
  docker: Docker
  host: string
  version: string
  apiVersion: string
  /** Whether the engine ships an init helper. Without one, a container's main process must reap zombies itself. */
  hasInit: boolean
  cpus: number
  /** Memory of the machine that runs the containers. */
  memoryMiB: number
  facts: EngineFacts
  /** Seccomp profile of containers without a runner. No engine's own profile forbids everything that it does. */
  seccompProfile: string
  /** The seccomp profile of containers with a runner. The runner may create and enter one user namespace; it denies both calls to
   *  the commands it starts. */
  runnerSeccomp: string
}

/** Asks `/version` once without a version in the path, because 20.10 speaks at most 1.41 and newer engines refuse old versions.
 *  @throws LonghaulError `Sandbox.EngineUnavailable` */
export async function connectEngine({ host, timeoutMs = 10_000 }: ConnectEngineInput = {}): Promise<Engine> {
  const address = host ?? process.env['DOCKER_HOST'] ?? 'unix:///var/run/docker.sock'
  try {
    const docker = new Docker(dockerOptions(address))
    boundEngineRequests(docker)
    const version = (await withDeadline(docker.version(), timeoutMs)) as EngineVersion
    requireSupported(version, address)
    const apiVersion = olderOf(NEWEST_API, version.ApiVersion)
    // The client has this field, but its types do not.
    Object.assign(docker.modem, { version: `v${apiVersion}` })
    const info = (await withDeadline(docker.info(), timeoutMs)) as EngineInfo
    const hasInit = Boolean(info.InitBinary)
    const facts = engineFacts(info)
    const profile = await readSeccompProfile()
    return {
      docker,
      host: address,
      version: version.Version,
      apiVersion,
      hasInit,
      cpus: info.NCPU ?? 1,
      // If the engine reports no memory size, admission does not limit memory.
      memoryMiB: info.MemTotal === undefined ? Number.POSITIVE_INFINITY : info.MemTotal / 1024 ** 2,
      facts,
      seccompProfile: JSON.stringify(profile),
      runnerSeccomp: JSON.stringify({ ...profile, syscalls: [...profile.syscalls, ...RUNNER_CALLS] }),
    }
  } catch (error) {
    if (error instanceof LonghaulError) throw error
    throw new LonghaulError({
      code: 'Sandbox.EngineUnavailable',
      message: 'No Docker engine answered. Start one, or point DOCKER_HOST at one.',
      details: { host: withoutUser(address), reason: error instanceof Error ? error.message : String(error) },
      cause: error,
    })
  }
}

interface EngineVersion {
  Version: string
  ApiVersion: string
  Components?: { Name: string }[] | null
}

function withDeadline<T>(answer: Promise<T>, timeoutMs: number): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs)
  return Promise.race([answer, promise]).finally(() => clearTimeout(timer))
}

function dockerOptions(address: string): Docker.DockerOptions {
  if (address.startsWith('unix://')) return { socketPath: address.slice('unix://'.length), host: undefined }
  // The client itself reads certificates and TLS settings beside DOCKER_HOST from the environment.
  if (address === process.env['DOCKER_HOST']) return {}
  const url = new URL(address.includes('//') ? address : `tcp://${address}`)
  return { host: url.hostname, port: Number(url.port || 2375), protocol: url.port === '2376' ? 'https' : 'http' }
}

function requireSupported({ Version: version, Components: parts }: EngineVersion, host: string): void {
  // Podman's description of a created container lacks most of the compared fields. A sandbox that cannot be inspected must not start.
  if (parts?.some(({ Name }) => Name === 'Podman Engine') === true) {
    throw new LonghaulError({
      code: 'Sandbox.EngineUnavailable',
      message:
        'Expected a Docker engine: Podman does not report enough about a container to check that it is safe (docs/sandboxes.md)',
      details: { podman: version, host },
    })
  }
  if (compareVersions(version, OLDEST_ENGINE) >= 0) return
  throw new LonghaulError({
    code: 'Sandbox.EngineUnavailable',
    message: `Expected a Docker engine of at least ${OLDEST_ENGINE}`,
    details: { version, host },
  })
}

/** Docker's format: `includes` and `excludes` select the containers and machines that a rule applies to. */
export interface SeccompProfile {
  defaultAction: string
  defaultErrnoRet: number
  syscalls: SeccompRule[]
}

export interface SeccompRule {
  names: string[]
  action: string
  args?: object[]
  errnoRet?: number
  includes?: { caps?: string[]; arches?: string[]; minKernel?: string }
  excludes?: { caps?: string[]; arches?: string[] }
}

/** Reads the profile of current engines, without tracers that are told of a process's end (`TRACER_CALLS`). */
export async function readSeccompProfile(): Promise<SeccompProfile> {
  const text = await readFile(new URL('./seccomp/default.json', import.meta.url), 'utf8')
  const profile = JSON.parse(text) as SeccompProfile
  const others = profile.syscalls.map(({ names, ...rule }) => ({ ...rule, names: names.filter((n) => n !== 'ptrace') }))
  return { ...profile, syscalls: [...others, ...TRACER_CALLS] }
}

const PTRACE_SETOPTIONS = 0x4200
const PTRACE_SEIZE = 0x4206
const PTRACE_O_TRACEEXIT = 0x40

/**
 * Every use of `ptrace` but one: no process may be stopped at its end. A killed process that has such a stop waits for its tracer, and a
 * second SIGKILL is lost. Two processes that trace each other would wait forever: no kill would end them, and no engine could remove
 * their container. Rules are alternatives, and one rule cannot name two values of an argument.
 */
const TRACER_CALLS: SeccompRule[] = [
  ptrace(0, 'SCMP_CMP_LT', PTRACE_SETOPTIONS),
  ...[1, 2, 3, 4, 5].map((after) => ptrace(0, 'SCMP_CMP_EQ', PTRACE_SETOPTIONS + after)),
  ptrace(0, 'SCMP_CMP_GT', PTRACE_SEIZE),
  // The options are the last argument of both calls. A masked comparison takes a mask and the wanted value.
  ptrace(3, 'SCMP_CMP_MASKED_EQ', PTRACE_O_TRACEEXIT),
]

function ptrace(index: number, op: string, value: number): SeccompRule {
  return { names: ['ptrace'], action: 'SCMP_ACT_ALLOW', args: [{ index, value, valueTwo: 0, op }] }
}

const CLONE_NEWUSER = 0x1000_0000

/** Calls for user namespaces only. The runner denies both to every process that it starts. */
const RUNNER_CALLS = [
  { names: ['unshare'], action: 'SCMP_ACT_ALLOW', args: [{ index: 0, value: CLONE_NEWUSER, op: 'SCMP_CMP_EQ' }] },
  { names: ['setns'], action: 'SCMP_ACT_ALLOW', args: [{ index: 1, value: CLONE_NEWUSER, op: 'SCMP_CMP_EQ' }] },
]

function olderOf(a: string, b: string): string {
  return compareVersions(a, b) <= 0 ? a : b
}

function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => (version.match(/\d+/g) ?? []).map(Number))
  for (let index = 0; index < 3; index += 1) {
    const difference = (left?.[index] ?? 0) - (right?.[index] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

/** What the engine’s kernel and settings enforce, as reported by `/info`. */
export interface EngineFacts {
  /** Name of the default seccomp profile of containers; null if there is none. */
  seccomp: string | null
  cgroupVersion: 1 | 2
  /** Limits that this kernel does not enforce, even if a container requests them. */
  unenforced: ('memory' | 'swap' | 'pids' | 'cpuset' | 'cpu')[]
  defaultRuntime: string
  storageDriver: string
  /** File system below the storage driver; null if the engine does not report it. */
  backingFilesystem: string | null
}

/** The fields that are read. Engines differ in the rest. */
export interface EngineInfo {
  InitBinary?: string
  NCPU?: number
  MemTotal?: number
  SecurityOptions?: string[] | null
  CgroupVersion?: string
  MemoryLimit?: boolean
  SwapLimit?: boolean
  PidsLimit?: boolean
  CPUSet?: boolean
  CpuCfsQuota?: boolean
  DefaultRuntime?: string
  Runtimes?: Record<string, unknown> | null
  Driver?: string
  DriverStatus?: [string, string][] | null
}

export function engineFacts(info: EngineInfo): EngineFacts {
  const limits = {
    memory: info.MemoryLimit,
    swap: info.SwapLimit,
    pids: info.PidsLimit,
    cpuset: info.CPUSet,
    cpu: info.CpuCfsQuota,
  }
  return {
    seccomp: seccompProfile(info.SecurityOptions ?? []),
    cgroupVersion: info.CgroupVersion === '2' ? 2 : 1,
    // Only an explicit "no" counts, because an engine may omit a limit that it enforces.
    unenforced: (Object.keys(limits) as (keyof typeof limits)[]).filter((name) => limits[name] === false),
    defaultRuntime: info.DefaultRuntime ?? '',
    storageDriver: info.Driver ?? '',
    backingFilesystem: info.DriverStatus?.find(([name]) => name === 'Backing Filesystem')?.[1] ?? null,
  }
}

/** `name=seccomp,profile=default` (20.10) or `…,profile=builtin` (newer); absent if the kernel has no seccomp. */
function seccompProfile(options: string[]): string | null {
  const option = options.find((text) => text.startsWith('name=seccomp'))
  if (option === undefined) return null
  return /profile=([^,]+)/.exec(option)?.[1] ?? 'default'
}

/** Where an engine keeps its images, and the architecture they must have. */
interface EnginePlace {
  /** Stays the same across restarts. Distinguishes two engines of one machine. */
  id: string
  rootDir: string
  /** In the spelling of images: `amd64`, `arm64`. */
  architecture: string
}

const places = new WeakMap<Engine, Promise<EnginePlace>>()

/** Asked once, because none of it changes during an engine's life. */
export function enginePlace(engine: Engine): Promise<EnginePlace> {
  const known = places.get(engine)
  if (known !== undefined) return known
  const asked = askPlace(engine)
  places.set(engine, asked)
  asked.catch(() => places.delete(engine))
  return asked
}

async function askPlace({ docker, host }: Engine): Promise<EnginePlace> {
  const info = (await docker.info()) as { ID?: string; DockerRootDir?: string; Architecture?: string }
  return { id: info.ID ?? host, rootDir: info.DockerRootDir ?? '', architecture: imageName(info.Architecture ?? '') }
}

/** Translates the kernel's name of the architecture, which the engine reports. */
function imageName(machine: string): string {
  if (machine === 'x86_64') return 'amd64'
  return machine === 'aarch64' ? 'arm64' : machine
}

/** The network of builds, which fetch packages: the engine's bridge, or the host's if the engine has none. */
export async function buildNetwork({ docker }: Engine): Promise<'bridge' | 'host'> {
  const networks = await docker.listNetworks()
  return networks.some(({ Name }) => Name === 'bridge') ? 'bridge' : 'host'
}

/** The options of the client's `dial` that are read here; the client does not type them. */
export interface DialOptions {
  path: string
  method?: string
  hijack?: boolean
  abortSignal?: AbortSignal
}

type DialCallback = (error: unknown, answer?: unknown) => void

/** Measured on loaded engines: create and start may take tens of seconds, all other requests less. */
const ANSWER_MS = 60_000
/** An engine under load answers a ping within two seconds. An engine that takes longer than this counts as silent. */
const PING_MS = 8_000
/** Archives and commits of a repository transfer hundreds of megabytes. A removal may delete a million files. */
const TRANSFER_MS = 5 * 60_000
/** Pulled images of real tasks are gigabytes in size. */
const IMAGE_MS = 30 * 60_000

/**
 * Bounds every request to the engine, because its client has no deadlines and a frozen engine still accepts connections. Callers bound
 * three kinds themselves: `wait` lasts as long as the container, an upgraded exec stream as long as the sandbox, and events come until
 * the subscriber closes the stream.
 */
export function boundEngineRequests(
  docker: Docker,
  limitOf: (request: DialOptions) => number | null = limitOfRequest,
): void {
  const modem = docker.modem as { dial(options: DialOptions, callback: DialCallback): void }
  const dial = modem.dial.bind(modem)
  modem.dial = (options, callback) => {
    const limitMs = limitOf(options)
    if (limitMs === null) return dial(options, callback)
    const { path } = options
    const deadline = AbortSignal.timeout(limitMs)
    const abortSignal = options.abortSignal === undefined ? deadline : AbortSignal.any([options.abortSignal, deadline])
    return dial({ ...options, abortSignal }, (error, answer) => {
      const isLate = Boolean(error) && deadline.aborted
      callback(isLate ? tooLate(path, limitMs, error) : error, answer)
    })
  }
}

/** Uses Node's code for a connection that timed out, so that a silent engine counts as unreachable. */
function tooLate(path: string, limitMs: number, cause: unknown): Error {
  return Object.assign(new Error(`no answer to ${path} within ${limitMs / 1000} s`, { cause }), { code: 'ETIMEDOUT' })
}

/** Returns milliseconds, or null if the caller sets its own bound. */
export function limitOfRequest({ path, method, hijack }: DialOptions): number | null {
  if (hijack === true || /^\/(containers\/[^/]+\/wait|events)/.test(path)) return null
  if (path.startsWith('/_ping')) return PING_MS
  if (/^\/(images\/(create|load|get)|build)/.test(path)) return IMAGE_MS
  if (method === 'DELETE' || /^\/(commit|containers\/[^/]+\/(archive|export))/.test(path)) return TRANSFER_MS
  return ANSWER_MS
}
