import type Docker from 'dockerode'
import type { SandboxLimits } from '../../../contracts/sandbox.types.ts'
import type { Engine } from '../engine/engine.ts'
import { LABELS, PROJECT, showRequest } from './labels.ts'
import { RUNNER_FOLDER } from '../sandbox/runner-wire.ts'

interface ContainerSpecInput {
  engine: Engine
  name: string
  image: string
  command: string[]
  workingDir: string
  limits: SandboxLimits
  /** Processors of the host's pool, as `0,3`: programs inside count these, not the machine's. */
  cpuset: string
  labels: ContainerLabels
  /** `restricted`: the agent's, almost none. `grading`: what official scripts and audits use of the engine's own set. */
  capabilities: 'restricted' | 'grading'
  /** Of an agent's container: where its runner comes from, see `ensureRunnerVolume`. @default no mount at all */
  runnerVolume?: string
  /** Whether the main process has a standard input, for a client that attaches. @default false */
  stdin?: boolean
}

export interface ContainerLabels {
  run: string
  episode: string
  role: string
  fence: number
  leaseMs: number
  maxLifeMs: number
  owner: string
  /** Execution of the owner; absent where the owner is no workflow. */
  ownerRun?: string | undefined
  /** Identity of the Temporal namespace that knows the owner; empty where the owner is no workflow. */
  namespaceId: string
  host: string
  imageDigest: string
  /** What the sandbox asks its host for; absent for containers that wait for no place. */
  request?: { cpus: number; memoryMiB: number } | undefined
}

/** What package managers need, proved by the tests; everything else is dropped. The last one is the runner's alone: kernels ask for
 *  it of who maps root into a user namespace. */
export const AGENT_CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETUID', 'SETGID', 'KILL', 'SETFCAP']

/**
 * The engine's own set without what neither gold patches nor official scripts use: raw sockets (a grader has no network), device nodes (its
 * control group forbids them), capabilities of files and processes, the audit log. A row that needs one fails its gate.
 */
const GRADER_CAPABILITIES = [
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'SETGID',
  'SETUID',
  'SYS_CHROOT',
  'NET_BIND_SERVICE',
]

/** The full specification of a container (sandboxes get no network, no devices, no engine socket, and no mount but the runner's). */
export function containerSpec(input: ContainerSpecInput): Docker.ContainerCreateOptions {
  const { engine, name, image, command, workingDir, limits, cpuset, capabilities } = input
  const memory = limits.memoryMiB * 1024 * 1024
  return {
    name,
    Image: image,
    // The image's own entry point could start anything before the runner.
    Entrypoint: [],
    Cmd: command,
    WorkingDir: workingDir,
    // The default is the container's id, which would differ in every record.
    Hostname: 'sandbox',
    User: 'root',
    Tty: false,
    OpenStdin: input.stdin ?? false,
    // With mode `none` the engine still sets up a network of its own, in a process of 70 MB for each container: 0.18 of the 0.40
    // CPU-seconds that a container costs. Without it runc alone gives the same namespace with nothing but loopback.
    NetworkDisabled: true,
    Labels: { ...labelsOf(input.labels), [LABELS.cpus]: cpuset },
    HostConfig: hostConfig({
      CapDrop: ['ALL'],
      CapAdd: capabilities === 'restricted' ? AGENT_CAPABILITIES : GRADER_CAPABILITIES,
      SecurityOpt: ['no-new-privileges:true', ...ownSeccomp(engine, input.runnerVolume !== undefined)],
      Privileged: false,
      IpcMode: 'private',
      CgroupnsMode: 'private',
      NetworkMode: 'none',
      Memory: memory,
      MemorySwap: memory,
      CpusetCpus: cpuset,
      NanoCpus: Math.round(Math.min(limits.cpus, engine.cpus) * 1e9),
      PidsLimit: limits.pids,
      ShmSize: 64 * 1024 * 1024,
      Ulimits: [
        { Name: 'nofile', Soft: 4096, Hard: 4096 },
        { Name: 'core', Soft: 0, Hard: 0 },
        ...fileSizeLimit(limits),
      ],
      OomScoreAdj: 500,
      // The runner is the first process itself.
      ...(input.runnerVolume === undefined ? initHelper(engine) : { Mounts: [runnerMount(input.runnerVolume)] }),
      ...(limits.runtime === undefined ? {} : { Runtime: limits.runtime }),
      ...(limits.diskGiB !== undefined && mayLimitDisk(engine) ? { StorageOpt: { size: `${limits.diskGiB}G` } } : {}),
      RestartPolicy: { Name: 'no' },
      AutoRemove: false,
      LogConfig: { Type: 'none', Config: {} },
    }),
  }
}

function initHelper({ hasInit }: Engine): { Init?: boolean } {
  return hasInit ? { Init: true } : {}
}

function runnerMount(volume: string): Docker.MountSettings {
  return {
    Type: 'volume',
    Source: volume,
    Target: RUNNER_FOLDER,
    ReadOnly: true,
    VolumeOptions: { NoCopy: true, Labels: {}, DriverConfig: { Name: '', Options: {} } },
  }
}

function ownSeccomp({ seccompProfile, runnerSeccomp }: Engine, hasRunner: boolean): string[] {
  const profile = hasRunner ? runnerSeccomp : seccompProfile
  return profile === null ? [] : [`seccomp=${profile}`]
}

/** One file alone may not fill the disk either; unlike the limit on all of them every host can hold this one. */
function fileSizeLimit({ diskGiB }: SandboxLimits): { Name: string; Soft: number; Hard: number }[] {
  if (diskGiB === undefined) return []
  const bytes = diskGiB * 1024 ** 3
  return [{ Name: 'fsize', Soft: bytes, Hard: bytes }]
}

/** The engine knows `CgroupnsMode`; the client's types do not. */
function hostConfig(config: Docker.HostConfig & { CgroupnsMode: 'private' }): Docker.HostConfig {
  return config
}

export function labelsOf(labels: ContainerLabels): Record<string, string> {
  return {
    [LABELS.project]: PROJECT,
    [LABELS.run]: labels.run,
    [LABELS.episode]: labels.episode,
    [LABELS.role]: labels.role,
    [LABELS.fence]: String(labels.fence),
    [LABELS.created]: String(Date.now()),
    [LABELS.leaseMs]: String(labels.leaseMs),
    [LABELS.maxLifeMs]: String(labels.maxLifeMs),
    [LABELS.owner]: labels.owner,
    ...(labels.ownerRun === undefined ? {} : { [LABELS.ownerRun]: labels.ownerRun }),
    ...(labels.namespaceId === '' ? {} : { [LABELS.namespaceId]: labels.namespaceId }),
    [LABELS.host]: labels.host,
    [LABELS.image]: labels.imageDigest,
    ...(labels.request === undefined ? {} : { [LABELS.request]: showRequest(labels.request) }),
  }
}

/** Engines that answered that they cannot count what a container writes. */
const refusing = new WeakSet<Engine>()

/** Drivers that count by themselves. The snapshots of containerd (`overlayfs`, the default of fresh engines from 29) do not. */
const COUNTING = ['btrfs', 'zfs', 'devicemapper']

/** overlay2 counts per container only on xfs mounted with project quotas; whether it is, only the engine can say. */
export function mayLimitDisk(engine: Engine): boolean {
  const { storageDriver, backingFilesystem } = engine.facts
  if (refusing.has(engine)) return false
  return COUNTING.includes(storageDriver) || (storageDriver === 'overlay2' && backingFilesystem === 'xfs')
}

/** @returns whether the refusal was about the disk limit: the caller leaves it out from now on */
export function noteDiskLimitRefused(engine: Engine, error: unknown): boolean {
  const text = error instanceof Error ? error.message : ''
  if (!/storage-opt|pquota|quota/i.test(text)) return false
  refusing.add(engine)
  return true
}
