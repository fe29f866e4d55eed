/** Sandboxes as pods of a real cluster, in the fixture of the sandbox contract's tests. */
import { createWriteStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createDemultiplexer } from '../../../src/adapters/docker/engine/exec-stream.ts'
import { readClusterAccess } from '../../../src/adapters/kubernetes/cluster-access.ts'
import { connectCluster } from '../../../src/adapters/kubernetes/cluster.ts'
import { listPods as listSandboxPods } from '../../../src/adapters/kubernetes/list-pods.ts'
import { readPod } from '../../../src/adapters/kubernetes/pod-access.ts'
import {
  createPodSandboxHost,
  type PodSandboxHost,
  SECCOMP_PROFILE,
} from '../../../src/adapters/kubernetes/pod-sandbox-host.ts'
import { isRunning } from '../../../src/adapters/kubernetes/pod-state.ts'
import { packageFile } from '../../../src/stack/paths.ts'
import {
  type ContractFixture,
  createSandboxFixture,
  LIMITS,
  type MakeFixture,
  type SandboxFixture,
} from '../../integration/sandbox-fixture.ts'
import { eventually } from '../hang.ts'
import { type Cluster, startCluster } from './cluster.ts'

export const NAMESPACE = 'sandboxes'
/** A namespace whose pods may request a tenth of what a sandbox requests. */
export const POOR = 'poor'
export const ACCOUNT = 'sandbox-worker'

export interface PodsCluster {
  cluster: Cluster
  /** Makes fixtures of suites, each with its own image. */
  makeFixture: MakeFixture
  /** A worker with this identity's kubeconfig. */
  hostAs(identity: string, change?: HostChange): Promise<PodSandboxHost>
  close(): Promise<void>
}

interface HostChange {
  namespace?: string | undefined
  namespaceId?: string | undefined
  seccompProfile?: string | undefined
}

/** Permissions of a worker's account, as in infra/kubernetes/sandboxes.json and docs/cluster.md. */
export interface Manifests {
  items: { kind: string; metadata: { name: string; namespace?: string }; [field: string]: unknown }[]
}

export async function startPodsCluster(programs: string): Promise<PodsCluster> {
  const store = await mkdtemp(join(tmpdir(), 'pods-'))
  const seccomp = { [SECCOMP_PROFILE]: packageFile('infra/kubernetes/runner-seccomp.json') }
  const cluster = await startCluster({ programs, images: [], store, seccomp })
  cluster.authority.issue('worker', { name: ACCOUNT })
  await prepareNamespaces(cluster)
  const hostAs: PodsCluster['hostAs'] = async (
    identity,
    { namespace = NAMESPACE, namespaceId = '', seccompProfile } = {},
  ) => {
    const access = await readClusterAccess({ KUBECONFIG: await cluster.configFile(identity) })
    return createPodSandboxHost({
      cluster: await connectCluster({ namespace, access }),
      hostId: 'pods-test',
      hostQueue: 'sandbox.pods-test',
      namespaceId,
      ...(seccompProfile === undefined ? {} : { seccompProfile }),
    })
  }
  const makeFixture: MakeFixture = async (topic, files) => {
    // An engine builds the image, like tasks' images; the node gets a copy.
    const made = await createSandboxFixture(`pods-${topic}`, files)
    try {
      await importInto(cluster, made, join(store, `${topic}.tar`))
    } finally {
      await made.dispose()
    }
    const host = await hostAs('worker')
    return podsFixture(made, {
      host,
      anotherHost: (namespaceId) => hostAs('worker', { namespaceId }),
      dispose: async () => undefined,
    })
  }
  return {
    cluster,
    makeFixture,
    hostAs,
    async close() {
      await cluster.close()
      await rm(store, { recursive: true, force: true })
    },
  }
}

export interface SeenPod {
  metadata: { name: string; uid: string; deletionTimestamp?: string; annotations?: Record<string, string> }
}

/** Uses `kubectl` and not the product. */
export async function listPods(cluster: Cluster, namespace: string): Promise<SeenPod[]> {
  const output = await cluster.kubectl(['get', 'pods', '--namespace', namespace, '--output', 'json'])
  return (JSON.parse(output) as { items: SeenPod[] }).items
}

/** Whether the pod is not terminating. */
export function stays({ metadata }: SeenPod): boolean {
  return metadata.deletionTimestamp === undefined
}

/** Imports an engine's image into the node through a temporary file. */
export async function importInto(
  cluster: Cluster,
  { engine, image }: Pick<SandboxFixture, 'engine' | 'image'>,
  archive: string,
): Promise<void> {
  await pipeline(await engine.docker.getImage(image).get(), createWriteStream(archive))
  await cluster.importImage(archive)
  await rm(archive)
}

interface PodsFixtureParts {
  host: PodSandboxHost
  anotherHost: (namespaceId?: string) => Promise<PodSandboxHost>
  dispose: () => Promise<void>
}

/** @param made what the image was made with */
export function podsFixture(
  { run, image, openInput }: SandboxFixture,
  { host, anotherHost, dispose }: PodsFixtureParts,
): ContractFixture {
  const { cluster } = host.context
  const own = { run, image: `docker.io/${image}`, limits: LIMITS, request: { cpus: 0.05, memoryMiB: 64 } }
  return {
    backend: 'pods',
    host,
    run,
    openInput: (changes = {}) => openInput({ ...own, ...changes }),
    anotherHost,
    graders: async () =>
      (await listSandboxPods(cluster))
        .filter(({ run: of, role, state }) => of === run && role !== 'agent' && state !== 'ended')
        .map(({ name }) => name),
    kill: (name) => host.close({ name }),
    async isRunning(name) {
      const pod = await readPod(cluster, name)
      return pod !== null && isRunning(pod)
    },
    execs: async () => null,
    restart: () => Promise.reject(new Error('a pod does not start again')),
    async probe({ name }, command) {
      const stream = await cluster.exec(name, ['sh', '-c', `cd / && ${command}`])
      const chunks: Buffer[] = []
      stream.on(
        'data',
        createDemultiplexer((kind, payload) => kind === 'stdout' && chunks.push(payload)),
      )
      await new Promise((resolve) => stream.on('close', resolve))
      return Buffer.concat(chunks).toString()
    },
    async dispose() {
      host.dispose()
      await dispose()
    },
  }
}

async function prepareNamespaces(cluster: Cluster): Promise<void> {
  const manifests = (await import('../../../infra/kubernetes/sandboxes.json', { with: { type: 'json' } }))
    .default as unknown as Manifests
  const items = [NAMESPACE, POOR].flatMap((namespace) =>
    manifests.items.map((item) =>
      item.kind === 'Namespace'
        ? { ...item, metadata: { ...item.metadata, name: namespace } }
        : { ...item, metadata: { ...item.metadata, namespace } },
    ),
  )
  const quota = {
    apiVersion: 'v1',
    kind: 'ResourceQuota',
    metadata: { name: 'small', namespace: POOR },
    spec: { hard: { 'requests.cpu': '10m' } },
  }
  await cluster.kubectl(
    ['create', '-f', '-'],
    JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [...items, quota] }),
  )
  for (const namespace of [NAMESPACE, POOR]) {
    await eventually(() => cluster.kubectl(['get', 'serviceaccount', 'default', '--namespace', namespace]))
  }
  await eventually(async () => {
    const counted = await cluster.kubectl([
      'get',
      'resourcequota',
      'small',
      '-n',
      POOR,
      '-o',
      'jsonpath={.status.hard}',
    ])
    if (!counted.includes('10m')) throw new Error('the quota is not counted yet')
  })
}
