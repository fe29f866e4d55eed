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
  /** Processors from the host's pool, as `0,3`. Programs inside count these instead of the machine's. */
  cpuset: string
  labels: ContainerLabels
  /** `restricted` is for agents and drops almost everything. `grading` keeps what official scripts and audits use of the engine's
   *  default set. */
  capabilities: 'restricted' | 'grading'
  /** Volume with the runner of an agent's container, see `ensureRunnerVolume`. @default no mount */
  runnerVolume?: string
  /** Whether the main process has a standard input for a client that attaches. @default false */
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
  /** Run id of the owner’s workflow execution; absent if the owner is not a workflow. */
  ownerRun?: string | undefined
  /** Identity of the Temporal namespace that knows the owner; empty if the owner is not a workflow. */
  namespaceId: string
  host: string
  imageDigest: string
  /** What the sandbox requests from its host; absent for containers that are not subject to admission. */
  request?: { cpus: number; memoryMiB: number } | undefined
}

/** The capabilities that package managers need, as the tests prove; all others are dropped. Only the runner has SETFCAP: kernels
 *  require it of a process that maps root into a user namespace. */
export const AGENT_CAPABILITIES = ['CHOWN', 'DAC_OVERRIDE', 'FOWNER', 'SETUID', 'SETGID', 'KILL', 'SETFCAP']

/**
 * The engine's default set without what neither gold patches nor official scripts use: raw sockets (a grader has no network), device
 * nodes (the control group forbids them), capabilities of files and processes, the audit log. A row that needs one of these fails its
 * gate.
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

/** The full specification of a container. Sandboxes get no network, no devices, no engine socket, and only the runner's mount. */
export function containerSpec(input: ContainerSpecInput): Docker.ContainerCreateOptions {
  const { engine, name, image, command, workingDir, limits, cpuset, capabilities } = input
  const memory = limits.memoryMiB * 1024 * 1024
  return {
    name,
    Image: image,
    // Clears the image's entry point, which could start another program before the runner.
    Entrypoint: [],
    Cmd: command,
    WorkingDir: workingDir,
    // The default is the container's id, which would differ in every record.
    Hostname: 'sandbox',
    User: 'root',
    Tty: false,
    OpenStdin: input.stdin ?? false,
    // With network mode `none` the engine still sets up a network, in a process of 70 MB for each container, which takes 0.18 of the
    // 0.40 CPU-seconds that a container costs. With the network disabled, runc alone creates the same namespace with only loopback.
    NetworkDisabled: true,
    Labels: { ...labelsOf(input.labels), [LABELS.cpus]: cpuset },
    HostConfig: hostConfig({
      CapDrop: ['ALL'],
      CapAdd: capabilities === 'restricted' ? AGENT_CAPABILITIES : GRADER_CAPABILITIES,
      SecurityOpt: [
        'no-new-privileges:true',
        `seccomp=${input.runnerVolume === undefined ? engine.seccompProfile : engine.runnerSeccomp}`,
      ],
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
      // The runner itself is the init process.
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

/** Keeps a single file from filling the disk. Unlike the limit on the total size, every host can enforce this one. */
function fileSizeLimit({ diskGiB }: SandboxLimits): { Name: string; Soft: number; Hard: number }[] {
  if (diskGiB === undefined) return []
  const bytes = diskGiB * 1024 ** 3
  return [{ Name: 'fsize', Soft: bytes, Hard: bytes }]
}

/** The engine supports `CgroupnsMode`; the client's types do not. */
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

/** Engines that have refused to limit what a container writes. */
const refusing = new WeakSet<Engine>()

/** Storage drivers that always support the limit. containerd's snapshotter (`overlayfs`, the default of fresh engines from 29) does
 *  not. */
const COUNTING = ['btrfs', 'zfs', 'devicemapper']

/** overlay2 limits a container only on xfs mounted with project quotas. Only the engine knows whether that is the case. */
export function mayLimitDisk(engine: Engine): boolean {
  const { storageDriver, backingFilesystem } = engine.facts
  if (refusing.has(engine)) return false
  return COUNTING.includes(storageDriver) || (storageDriver === 'overlay2' && backingFilesystem === 'xfs')
}

/** @returns whether the refusal was about the disk limit; if so, the caller omits that limit from now on */
export function noteDiskLimitRefused(engine: Engine, error: unknown): boolean {
  const text = error instanceof Error ? error.message : ''
  if (!/storage-opt|pquota|quota/i.test(text)) return false
  refusing.add(engine)
  return true
}
