/**
 * A real Kubernetes on this machine, from etcd to a kubelet with Debian's containerd: one node with its own certificates, in
 * namespaces that end with the test in any case. It pulls no images: pods run those of `images`.
 */
import { execFile, spawn } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { requireCommand } from '../../../src/platform/run-command.ts'
import { SYSTEM_PATH } from '../../../src/stack/setup/system-packages.ts'
import { freePort } from '../loopback.ts'
import { withDeadline } from '../with-deadline.ts'
import { type ClusterAuthority, createClusterAuthority } from './certificates.ts'
import { type SmallImage, writeSmallImage } from './images.ts'

/** Until the node accepts pods: half a minute on two idle cores. */
const START_MS = 5 * 60_000
/** For killing two dozen processes and removing their mounts and control groups. */
const END_MS = 60_000
/** The node's name is an address, so the kubelet need not resolve it. */
const NODE = '127.0.0.1'
const PAUSE = 'longhaul.test/pause:1'

export interface Cluster {
  /** Folder of its configuration, data and logs. */
  home: string
  /** `https://127.0.0.1:port` */
  server: string
  /** Prefix of its pods' addresses, such as `10.253.7.`; with `1` appended it is this machine's address for pods. */
  podSubnet: string
  authority: ClusterAuthority
  /** A kubeconfig file for this file's certificate (`authority.issue`). `admin` has all permissions. */
  configFile(identity: string): Promise<string>
  /** Runs as admin and returns the output. */
  kubectl(args: string[], input?: string): Promise<string>
  /** Imports an image into the node, from an archive of `docker save`. */
  importImage(archive: string): Promise<void>
  /** The end of a part's log. */
  log(part: string): Promise<string>
  close(): Promise<void>
}

interface StartClusterInput {
  programs: string
  images: SmallImage[]
  /** Folder of this machine that pods mount by a claim. */
  store: string
  /** Folders of this machine that the node mounts read-only at `STORE/shared/N`. @default none */
  shared?: string[]
  /** Seccomp profiles on the node: path in the kubelet's folder of profiles → file of this machine. @default none */
  seccomp?: Record<string, string>
}

export async function startCluster({
  programs,
  images,
  store,
  shared = [],
  seccomp = {},
}: StartClusterInput): Promise<Cluster> {
  const home = await mkdtemp(join(tmpdir(), 'kubernetes-'))
  const ports = await Promise.all(
    ['API_PORT', 'ETCD_PORT', 'PEER_PORT', 'KUBELET_PORT'].map(async (name) => [name, String(await freePort())]),
  )
  const environment = Object.fromEntries(ports) as Record<string, string>
  const server = `https://127.0.0.1:${environment['API_PORT']}`
  // Two clusters of one machine have different subnets.
  const podSubnet = `10.253.${Number(environment['API_PORT']) % 256}.`
  const authority = createClusterAuthority(join(home, 'pki'))
  authority.issue('server', { name: 'kube-apiserver' })
  authority.issue('admin', { name: 'admin', group: 'system:masters' })
  const configFile = async (identity: string): Promise<string> => {
    const path = join(home, `${identity}.json`)
    await writeFile(path, authority.kubeconfig(identity, server))
    return path
  }
  const admin = await configFile('admin')
  await writeFile(join(home, 'containerd.toml'), containerdSettings(home))
  await writeFile(
    join(home, 'kubelet.json'),
    JSON.stringify(kubeletSettings({ home, port: Number(environment['KUBELET_PORT']) })),
  )
  await Promise.all(['images', 'cni', 'cni-programs', 'pod-logs'].map((name) => mkdir(join(home, name))))
  await writeFile(join(home, 'cni/10-pods.conflist'), JSON.stringify(podNetwork(podSubnet)))
  for (const name of ['ptp', 'loopback', 'host-local'])
    await copyFile(join(programs, name), join(home, 'cni-programs', name))
  for (const [path, file] of Object.entries(seccomp)) {
    const target = join(home, 'root/var/lib/kubelet/seccomp', path)
    await mkdir(dirname(target), { recursive: true })
    await copyFile(file, target)
  }
  const pause: SmallImage = { name: PAUSE, files: { '/pause': join(programs, 'pause') }, entrypoint: ['/pause'] }
  for (const [index, image] of [pause, ...images].entries())
    await writeSmallImage(image, join(home, `images/${index}.tar`))

  // Its own session, so that a signal to the test's group does not end the process that cleans up after the test. Its stdin closes
  // when the test ends.
  const guardian = spawn('sh', [join(import.meta.dirname, 'cluster.sh')], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {
      ...process.env,
      ...environment,
      PATH: SYSTEM_PATH,
      CLUSTER_HOME: home,
      CLUSTER_PROGRAMS: programs,
      CLUSTER_CGROUP: `longhaul-${basename(home)}`,
      CLUSTER_STORE: store,
      CLUSTER_SHARED: shared.join(':'),
      CLUSTER_NODE: NODE,
    },
  })
  // It may have ended already.
  guardian.stdin.on('error', () => undefined)
  const ended = new Promise<void>((resolve) => guardian.once('exit', () => resolve()))
  const kubectl = (args: string[], input = ''): Promise<string> =>
    new Promise((resolve, reject) => {
      const child = execFile(
        join(programs, 'kubectl'),
        ['--kubeconfig', admin, ...args],
        { timeout: 120_000, maxBuffer: 16 * 1024 * 1024 },
        (error, stdout, stderr) =>
          error === null
            ? resolve(stdout)
            : reject(new Error(`kubectl ${args.join(' ')}: ${stderr}`, { cause: error })),
      )
      child.stdin?.on('error', () => undefined)
      child.stdin?.end(input)
    })
  const log = async (part: string): Promise<string> =>
    (await readFile(join(home, `${part}.log`), 'utf8').catch(String)).slice(-3_000)
  const importImage = async (archive: string): Promise<void> => {
    const args = ['--address', join(home, 'containerd.sock'), '--namespace', 'k8s.io', 'images', 'import', archive]
    await requireCommand({ what: 'Importing an image', command: 'ctr', args, timeoutMs: START_MS })
  }
  const close = async (): Promise<void> => {
    guardian.stdin.end()
    await withDeadline(ended, END_MS, 'the end of the cluster')
    await rm(home, { recursive: true, force: true })
  }
  const cluster: Cluster = { home, server, podSubnet, authority, configFile, kubectl, importImage, log, close }
  try {
    await untilReady()
    return cluster
  } catch (error) {
    const logs = await readdir(home).then(
      (names) =>
        Promise.all(
          names
            .filter((name) => name.endsWith('.log'))
            .map(async (name) => `${name}:\n${(await log(basename(name, '.log'))).slice(-1_500)}`),
        ),
      () => [],
    )
    await close()
    throw new Error(`Expected a cluster with one node: ${String(error)}\n${logs.join('\n')}`, { cause: error })
  }

  async function untilReady(): Promise<void> {
    for (const deadline = Date.now() + START_MS; ; await sleep(300)) {
      const dead = await readFile(join(home, 'ended'), 'utf8').catch(() => '')
      if (dead !== '') throw new Error(`${dead.trim().split('\n').join(', ')} ended`)
      if (guardian.exitCode !== null) throw new Error('it ended')
      const state = await kubectl([
        'get',
        'node',
        NODE,
        '--output',
        'jsonpath={.status.conditions[?(@.type=="Ready")].status} {.spec.taints}',
      ]).catch(String)
      if (state.trim() === 'True') return
      if (Date.now() > deadline) throw new Error(`no node is ready: ${state}`)
    }
  }
}

function containerdSettings(home: string): string {
  return `version = 2
root = "${home}/containerd"
state = "/run/containerd"
[grpc]
  address = "${home}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${PAUSE}"
  # The machine may not let us lower these.
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "${home}/cni-programs"
  conf_dir = "${home}/cni"
[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
`
}

/** A veth pair from each pod to the machine: it ends with the pod, and needs no firewall rule. */
function podNetwork(subnet: string): object {
  const ipam = { type: 'host-local', dataDir: '/run/cni', ranges: [[{ subnet: `${subnet}0/24` }]] }
  return { cniVersion: '1.0.0', name: 'pods', plugins: [{ type: 'ptp', ipMasq: false, ipam }] }
}

/** Works with either version of control groups, without changing the machine's global settings. */
function kubeletSettings({ home, port }: { home: string; port: number }): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address: '127.0.0.1',
    port,
    readOnlyPort: 0,
    healthzPort: 0,
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: false },
      x509: { clientCAFile: join(home, 'pki/ca.pem') },
    },
    authorization: { mode: 'AlwaysAllow' },
    containerRuntimeEndpoint: `unix://${home}/containerd.sock`,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/longhaul-${basename(home)}`,
    failCgroupV1: false,
    failSwapOn: false,
    makeIPTablesUtilChains: false,
    localStorageCapacityIsolation: true,
    enforceNodeAllocatable: [],
    evictionHard: {},
    // Never collects images: on a disk that is more than 85 % full the kubelet would remove images that no registry has.
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    podLogsDir: join(home, 'pod-logs'),
    volumePluginDir: join(home, 'volume-plugins'),
    resolvConf: '',
    registerNode: true,
    serializeImagePulls: false,
    // Detects ends of pods soon.
    syncFrequency: '10s',
    nodeStatusUpdateFrequency: '5s',
  }
}
