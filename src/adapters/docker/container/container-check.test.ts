import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ContainerInspectInfo } from 'dockerode'
import { deviationsOf } from './container-check.ts'
import { containerSpec } from './container-spec.ts'
import { engineFacts, type Engine } from '../engine/engine.ts'

const facts = engineFacts({
  SecurityOptions: ['name=seccomp,profile=default'],
  DefaultRuntime: 'runc',
  Driver: 'overlay2',
  DriverStatus: [['Backing Filesystem', 'xfs']],
  MemoryLimit: true,
  SwapLimit: true,
})
const engine = { hasInit: true, cpus: 8, facts, seccompProfile: '{}' } as Engine

const SPEC = containerSpec({
  engine,
  name: 'lh-a',
  image: 'image:1',
  command: ['/bin/sh', '/.lh/lease.sh'],
  workingDir: '/testbed',
  limits: { cpus: 2, memoryMiB: 512, pids: 128, diskGiB: 10, runtime: 'runsc' },
  cpuset: '0,3',
  capabilities: 'restricted',
  labels: {
    run: 'r',
    episode: 'e',
    role: 'agent',
    fence: 1,
    leaseMs: 1,
    maxLifeMs: 1,
    owner: 'o',
    namespaceId: 'n',
    host: 'h',
    imageDigest: 'sha256:0',
  },
})

/** What engines add to every container by themselves (seen on 20.10 and 26.1). */
const ENGINE_DEFAULTS = {
  Binds: null,
  ContainerIDFile: '',
  PortBindings: {},
  VolumeDriver: '',
  VolumesFrom: null,
  ConsoleSize: [0, 0],
  Dns: null,
  ExtraHosts: null,
  GroupAdd: null,
  Cgroup: '',
  Links: null,
  PidMode: '',
  PublishAllPorts: false,
  ReadonlyRootfs: false,
  UTSMode: '',
  UsernsMode: '',
  Isolation: '',
  CpuShares: 0,
  CgroupParent: '',
  Devices: null,
  DeviceRequests: null,
  OomKillDisable: false,
  Sysctls: null,
  MaskedPaths: ['/proc/asound', '/proc/kcore', '/proc/keys', '/proc/timer_list', '/sys/firmware'],
  ReadonlyPaths: ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'],
}

interface Changes {
  host?: Record<string, unknown>
  config?: Record<string, unknown>
  top?: Record<string, unknown>
}

function created({ host = {}, config = {}, top = {} }: Changes = {}): ContainerInspectInfo {
  const { HostConfig, name: _, Entrypoint: __, ...rest } = SPEC
  return {
    Mounts: [],
    NetworkSettings: { Networks: { none: {} } },
    AppArmorProfile: '',
    Config: { ...rest, Entrypoint: null, Volumes: null, AttachStdin: false, ...config },
    HostConfig: { ...ENGINE_DEFAULTS, ...HostConfig, ...host },
    ...top,
  } as unknown as ContainerInspectInfo
}

function fieldsOf(changes: Changes, other: Partial<typeof facts> = {}): string[] {
  return deviationsOf({ spec: SPEC, found: created(changes), facts: { ...facts, ...other } }).map(({ field }) => field)
}

test('a container as requested has no deviation in any spelling of an engine', () => {
  assert.deepEqual(fieldsOf({}), [])
  const spelled = {
    CapDrop: ['CAP_ALL'],
    CapAdd: (SPEC.HostConfig?.CapAdd ?? []).map((name: string) => `CAP_${name}`).toReversed(),
    SecurityOpt: ['seccomp={}', 'no-new-privileges'],
    Ulimits: [
      { Name: 'RLIMIT_FSIZE', Soft: 10 * 1024 ** 3, Hard: 10 * 1024 ** 3 },
      { Name: 'RLIMIT_CORE', Soft: 0, Hard: 0 },
      { Name: 'RLIMIT_NOFILE', Soft: 4096, Hard: 4096 },
    ],
    RestartPolicy: { Name: '', MaximumRetryCount: 0 },
  }
  assert.deepEqual(fieldsOf({ host: spelled }), [])
})

test('each requested field that is missing or different is reported with the expected and actual value', () => {
  const asked = Object.keys(SPEC.HostConfig ?? {}).filter(
    // Asked for as "not": their absence is what was wanted.
    (field) => !['Privileged', 'AutoRemove', 'RestartPolicy'].includes(field),
  )
  assert.ok(asked.length >= 18)
  for (const field of asked) {
    assert.deepEqual(fieldsOf({ host: { [field]: undefined } }), [field], `${field} missing`)
  }
  const weaker: Record<string, unknown> = {
    CapAdd: [...(SPEC.HostConfig?.CapAdd ?? []), 'SYS_ADMIN'],
    CapDrop: ['MKNOD'],
    SecurityOpt: ['no-new-privileges:true', 'seccomp=unconfined'],
    Privileged: true,
    IpcMode: 'host',
    CgroupnsMode: 'host',
    NetworkMode: 'bridge',
    Memory: 1 << 30,
    MemorySwap: -1,
    NanoCpus: 4e9,
    CpusetCpus: '0-7',
    PidsLimit: -1,
    ShmSize: 1 << 30,
    Ulimits: [{ Name: 'nofile', Soft: 4096, Hard: 1_048_576 }],
    OomScoreAdj: -500,
    RestartPolicy: { Name: 'always' },
    AutoRemove: true,
    LogConfig: { Type: 'json-file' },
    Runtime: 'runc',
    StorageOpt: { size: '100G' },
    Init: false,
  }
  for (const [field, value] of Object.entries(weaker)) {
    assert.deepEqual(fieldsOf({ host: { [field]: value } }), [field], `${field} weaker`)
  }
  assert.deepEqual(Object.keys(weaker).toSorted(), Object.keys(SPEC.HostConfig ?? {}).toSorted())
})

test('reports every setting that was not requested, known or unknown', () => {
  const extra: Record<string, unknown> = {
    Binds: ['/var/run/docker.sock:/var/run/docker.sock'],
    VolumesFrom: ['other'],
    Devices: [{ PathOnHost: '/dev/kvm' }],
    DeviceRequests: [{ Driver: 'nvidia' }],
    DeviceCgroupRules: ['a *:* rwm'],
    PortBindings: { '80/tcp': [{ HostPort: '80' }] },
    PublishAllPorts: true,
    PidMode: 'host',
    UTSMode: 'host',
    UsernsMode: 'host',
    CgroupParent: '/',
    GroupAdd: ['docker'],
    ExtraHosts: ['a:1.2.3.4'],
    Links: ['/other:other'],
    Sysctls: { 'kernel.shm_rmid_forced': '0' },
    OomKillDisable: true,
    Tmpfs: { '/tmp': 'size=1t' },
    SomethingNew: { from: 'a later engine' },
  }
  for (const [field, value] of Object.entries(extra)) assert.deepEqual(fieldsOf({ host: { [field]: value } }), [field])
  assert.deepEqual(fieldsOf({ top: { Mounts: [{ Type: 'volume' }] } }), ['Mounts'])
  assert.deepEqual(fieldsOf({ top: { NetworkSettings: { Networks: { none: {}, bridge: {} } } } }), ['Networks'])
  assert.deepEqual(fieldsOf({ top: { AppArmorProfile: 'unconfined' } }), ['AppArmorProfile'])
})

test('compares user, command, image, network switch, volumes of the image and labels too', () => {
  const other = {
    User: 'daemon',
    Tty: true,
    OpenStdin: true,
    Cmd: ['/bin/true'],
    Entrypoint: ['/docker-entrypoint.sh'],
    WorkingDir: '/',
    Hostname: 'host',
    NetworkDisabled: false,
    Image: 'image:2',
    Volumes: { '/data': {} },
  }
  for (const [field, value] of Object.entries(other)) {
    assert.deepEqual(fieldsOf({ config: { [field]: value } }), [field])
  }
  const labels = { ...SPEC.Labels, 'longhaul.owner': 'else' }
  assert.deepEqual(fieldsOf({ config: { Labels: labels } }), ['Labels.longhaul.owner'])
})

test("checks the engine's own protections: masked and read-only paths, seccomp profile and enforced limits", () => {
  assert.deepEqual(fieldsOf({ host: { MaskedPaths: [] } }).length, 4)
  assert.deepEqual(fieldsOf({ host: { ReadonlyPaths: ['/proc/sys'] } }).length, 4)
  for (const seccomp of [null, 'unconfined', '/etc/docker/open.json']) {
    assert.deepEqual(fieldsOf({}, { seccomp }), ['seccomp'])
  }
  assert.deepEqual(fieldsOf({}, { seccomp: 'builtin' }), [])
  assert.deepEqual(fieldsOf({}, { unenforced: ['memory', 'pids'] }), ['limit on memory', 'limit on pids'])
})

test('accepts the memory limit alone only on a kernel that does not account swap', () => {
  assert.deepEqual(fieldsOf({ host: { MemorySwap: -1 } }, { unenforced: ['swap'] }), [])
  assert.deepEqual(fieldsOf({ host: { MemorySwap: -1 } }), ['MemorySwap'])
})

test('accepts only the default runtime of the engine when none is requested', () => {
  const { Runtime: _, ...host } = SPEC.HostConfig ?? {}
  const spec = { ...SPEC, HostConfig: host }
  const fields = (runtime: string): string[] =>
    deviationsOf({ spec, found: created({ host: { Runtime: runtime } }), facts }).map(({ field }) => field)
  assert.deepEqual([fields('runc'), fields('own-shell')], [[], ['Runtime']])
})

const AGENT = containerSpec({
  engine: { ...engine, runnerSeccomp: '{}' },
  name: 'lh-a',
  image: 'image:1',
  command: ['/.lh-runner/runner', 'init', '10', '12'],
  workingDir: '/testbed',
  limits: { cpus: 2, memoryMiB: 512, pids: 128 },
  cpuset: '0,3',
  capabilities: 'restricted',
  runnerVolume: 'longhaul-runner-1',
  labels: {
    run: 'r',
    episode: 'e',
    role: 'agent',
    fence: 1,
    leaseMs: 1,
    maxLifeMs: 1,
    owner: 'o',
    namespaceId: 'n',
    host: 'h',
    imageDigest: 's',
  },
})
const MOUNT = { Type: 'volume', Name: 'longhaul-runner-1', Destination: '/.lh-runner', Driver: 'local', RW: false }

test("accepts the runner's volume as the only mount, read-only and at its path", () => {
  const { HostConfig, name: _, Entrypoint: __, ...rest } = AGENT
  const fieldsWith = (mounts: object[], host: Record<string, unknown> = {}): string[] => {
    const found = created({ config: { ...rest, Entrypoint: null }, top: { Mounts: mounts } })
    Object.assign(found, { HostConfig: { ...ENGINE_DEFAULTS, Runtime: 'runc', ...HostConfig, ...host } })
    return deviationsOf({ spec: AGENT, found, facts }).map(({ field }) => field)
  }
  assert.deepEqual(fieldsWith([MOUNT]), [])
  const plain = {
    Type: 'volume',
    Source: 'longhaul-runner-1',
    Target: '/.lh-runner',
    ReadOnly: true,
    VolumeOptions: { NoCopy: true },
  }
  assert.deepEqual(fieldsWith([MOUNT], { Mounts: [plain] }), [], 'in the spelling of engine 20.10')
  for (const changes of [{ RW: true }, { Destination: '/' }, { Name: 'other' }, { Type: 'bind' }]) {
    assert.deepEqual(fieldsWith([{ ...MOUNT, ...changes }]), ['Mounts'], JSON.stringify(changes))
  }
  assert.deepEqual(fieldsWith([]), ['Mounts'])
  assert.deepEqual(fieldsWith([MOUNT, { ...MOUNT, Destination: '/root' }]), ['Mounts'])
  for (const changes of [
    { ReadOnly: false },
    { VolumeOptions: {} },
    { Source: 'other' },
    { BindOptions: { Propagation: 'shared' } },
  ]) {
    assert.deepEqual(fieldsWith([MOUNT], { Mounts: [{ ...plain, ...changes }] }), ['Mounts'], JSON.stringify(changes))
  }
})
