import { LonghaulError } from '../../contracts/errors.ts'
import { PROJECT, LABELS } from '../docker/container/labels.ts'
import { runnerParts, runnerProgram } from '../docker/sandbox/runner-volume.ts'
import { unlessRefused } from './cluster-errors.ts'
import type { Cluster } from './cluster.ts'

/** The server's size limit of a ConfigMap. */
const MAX_BYTES = 1024 * 1024

interface ConfigMap {
  data?: Record<string, string>
  binaryData?: Record<string, string>
  immutable?: boolean
}

const maps = new WeakMap<Cluster, Promise<string>>()
const policies = new WeakMap<Cluster, Promise<void>>()

/** Runs `make` once per cluster, and again after a failure. */
function once<T>(known: WeakMap<Cluster, Promise<T>>, cluster: Cluster, make: () => Promise<T>): Promise<T> {
  const earlier = known.get(cluster)
  if (earlier !== undefined) return earlier
  const made = make()
  known.set(cluster, made)
  made.catch(() => known.delete(cluster))
  return made
}

/** Ensures the namespace's ConfigMap with the runner and its scripts, named by the hash of their sources. Sandboxes mount it
 *  read-only. The first caller creates it, once per namespace.
 *  @returns its name
 *  @throws LonghaulError `Stack.SetupFailed` without a C compiler; `Sandbox.Unsafe` if another object has its name */
export function ensureRunnerMap(cluster: Cluster): Promise<string> {
  return once(maps, cluster, () => makeRunnerMap(cluster))
}

async function makeRunnerMap(cluster: Cluster): Promise<string> {
  const { name, scripts } = await runnerParts()
  const there = await read(cluster, name)
  if (there === null) {
    const program = await runnerProgram()
    const bytes = program.length + Object.values(scripts).reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    if (bytes > MAX_BYTES) {
      throw new LonghaulError({
        code: 'Stack.SetupFailed',
        message: `Expected the sandbox runner to fit into a ConfigMap of ${MAX_BYTES} bytes, but it has ${bytes} bytes: this machine's C library links programs that are too large`,
      })
    }
    await create(cluster, name, {
      immutable: true,
      binaryData: { runner: program.toString('base64') },
      data: scripts,
    })
  }
  const made = there ?? (await read(cluster, name))
  // The program differs between compilers, so it is not compared. The name contains the hash of the sources.
  const isOurs = made?.immutable === true && made.binaryData?.['runner'] !== undefined
  const isWhole = Object.entries(scripts).every(([script, text]) => made?.data?.[script] === text)
  if (isOurs && isWhole && Object.keys(made.data ?? {}).length === Object.keys(scripts).length) return name
  throw new LonghaulError({
    code: 'Sandbox.Unsafe',
    message: `The ConfigMap ${name} in the namespace ${cluster.namespace} was not created by Longhaul; delete it`,
    details: { name },
  })
}

async function read(cluster: Cluster, name: string): Promise<ConfigMap | null> {
  const path = cluster.pathOf('configmaps', name)
  return (await unlessRefused([404], cluster.ask({ path }))) as ConfigMap | null
}

async function create(cluster: Cluster, name: string, content: ConfigMap): Promise<void> {
  const metadata = { name, labels: { [LABELS.project]: PROJECT } }
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata, ...content }
  await createUnlessThere(cluster, 'configmaps', body)
}

/** Another worker may have created it first. */
async function createUnlessThere(cluster: Cluster, kind: string, body: object): Promise<void> {
  await unlessRefused([409], cluster.ask({ method: 'POST', path: cluster.pathOf(kind), body }))
}

/** Denies traffic of sandbox pods in both directions. It affects programs outside the runner's jail, which agents cannot start. */
const POLICY = 'longhaul-sandboxes'

export function ensureNetworkPolicy(cluster: Cluster): Promise<void> {
  return once(policies, cluster, () => makeNetworkPolicy(cluster))
}

async function makeNetworkPolicy(cluster: Cluster): Promise<void> {
  const body = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: POLICY, labels: { [LABELS.project]: PROJECT } },
    spec: {
      podSelector: { matchLabels: { [LABELS.project]: PROJECT } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [],
      egress: [],
    },
  }
  await createUnlessThere(cluster, 'networkpolicies', body)
}
