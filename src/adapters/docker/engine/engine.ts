import { readFile } from 'node:fs/promises'

import Docker from 'dockerode'

import { LonghaulError } from '../../../contracts/errors.ts'
import { type EngineFacts, type EngineInfo, engineFacts } from './engine-facts.ts'
import { boundEngineRequests } from './engine-deadlines.ts'

/** The newest Engine API this adapter was written against; an older engine is spoken to in its own version. */
const NEWEST_API = '1.47'
/** Below this an engine's default seccomp profile breaks current C libraries (clone3). */
const OLDEST_ENGINE = '20.10.10'

export interface ConnectEngineInput {
  /** `unix:///path`, `tcp://host:port`, … @default DOCKER_HOST, else the default socket */
  host?: string
  /** How long the engine may take to answer the first question. @default 10_000 */
  timeoutMs?: number
}

/** A reachable engine with the facts that later requests depend on. */
export interface Engine {
  docker: Docker
  host: string
  version: string
  apiVersion: string
  /** Whether the engine brings its own init helper; without it a container's main process must reap by itself. */
  hasInit: boolean
  cpus: number
  /** Of the machine that containers run on. */
  memoryMiB: number
  facts: EngineFacts
  /** Profile of system calls that containers bring along; null where the engine's own is as good. */
  seccompProfile: string | null
  /** The same for containers with a runner: it may make one user namespace and enter it, and takes both from what it starts. */
  runnerSeccomp: string
}

/** Asks `/version` once without a version in the path: 20.10 speaks at most 1.41, newer engines refuse old ones.
 *  @throws LonghaulError `Sandbox.EngineUnavailable` */
export async function connectEngine({ host, timeoutMs = 10_000 }: ConnectEngineInput = {}): Promise<Engine> {
  const address = host ?? process.env['DOCKER_HOST'] ?? 'unix:///var/run/docker.sock'
  try {
    const docker = new Docker(dockerOptions(address))
    boundEngineRequests(docker)
    const version = (await withDeadline(docker.version(), timeoutMs)) as EngineVersion
    requireSupported(version, address)
    const apiVersion = olderOf(NEWEST_API, version.ApiVersion)
    // The client has the field but its types do not.
    Object.assign(docker.modem, { version: `v${apiVersion}` })
    const info = (await withDeadline(docker.info(), timeoutMs)) as EngineInfo
    const hasInit = Boolean(info.InitBinary)
    const facts = engineFacts(info)
    const profile = await readSeccompProfile()
    const isGood = compareVersions(version.Version, GOOD_SECCOMP) >= 0
    return {
      docker,
      host: address,
      version: version.Version,
      apiVersion,
      hasInit,
      cpus: info.NCPU ?? 1,
      // An engine that does not say keeps no sandbox out by its memory.
      memoryMiB: info.MemTotal === undefined ? Number.POSITIVE_INFINITY : info.MemTotal / 1024 ** 2,
      facts,
      seccompProfile: isGood ? null : JSON.stringify(profile),
      runnerSeccomp: JSON.stringify({ ...profile, syscalls: [...profile.syscalls, ...RUNNER_CALLS] }),
    }
  } catch (error) {
    if (error instanceof LonghaulError) throw error
    throw new LonghaulError({
      code: 'Sandbox.EngineUnavailable',
      message: 'No Docker engine answered. Start one, or point DOCKER_HOST at one.',
      details: { host: address, reason: error instanceof Error ? error.message : String(error) },
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
  // The client reads certificates and TLS settings beside DOCKER_HOST from the environment by itself.
  if (address === process.env['DOCKER_HOST']) return {}
  const url = new URL(address.includes('//') ? address : `tcp://${address}`)
  return { host: url.hostname, port: Number(url.port || 2375), protocol: url.port === '2376' ? 'https' : 'http' }
}

function requireSupported({ Version: version, Components: parts }: EngineVersion, host: string): void {
  // Its answers about a created container lack most of what is compared: a sandbox that cannot be inspected is not started.
  if (parts?.some(({ Name }) => Name === 'Podman Engine') === true) {
    throw new LonghaulError({
      code: 'Sandbox.EngineUnavailable',
      message:
        'Expected a Docker engine: Podman does not tell enough of a container to check that it is safe (docs/sandboxes.md)',
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

/** From here on the built-in profile forbids what ours does; see `seccomp/README.md`. */
const GOOD_SECCOMP = '23.0.0'

interface SeccompProfile {
  syscalls: object[]
}

async function readSeccompProfile(): Promise<SeccompProfile> {
  return JSON.parse(await readFile(new URL('./seccomp/default.json', import.meta.url), 'utf8')) as SeccompProfile
}

const CLONE_NEWUSER = 0x1000_0000

/** User namespaces alone; the runner forbids both calls to everything that it starts. */
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
