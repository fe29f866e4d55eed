import { Context } from '@temporalio/activity'
import type { SandboxHost } from '../contracts/sandbox.types.ts'
import { QUEUES } from '../contracts/workflow-ids.ts'
import { type Cluster, connectCluster } from '../adapters/kubernetes/cluster.ts'
import { listHeldPods, listPods, requirePods } from '../adapters/kubernetes/list-pods.ts'
import { type Asker, checkImageInPod, imageInPod } from '../adapters/kubernetes/inspect-image.ts'
import { createClusterPulse } from '../adapters/kubernetes/pod-access.ts'
import { createPodSandboxHost, type PodSandboxHost } from '../adapters/kubernetes/pod-sandbox-host.ts'
import { countGraders } from '../adapters/docker/container/list-sandboxes.ts'
import type { ImageInspector } from '../activities/gate/verify-image.ts'
import type { Held } from '../adapters/docker/sandbox/admission.ts'
import type { WatchedEngine } from '../activities/runtime/watch.ts'
import { sha256Hex } from '../platform/hash.ts'
import type { PodsEnvironment, WorkerEnvironment } from './worker-environment.ts'

interface OpenPodsInput {
  environment: Pick<WorkerEnvironment, 'sandboxRuntime'>
  pods: PodsEnvironment
  namespaceId: string
  /** Null: in pods. */
  graders: Pick<SandboxHost, 'grade' | 'audit'> | null
  log: (message: string, facts: Record<string, string | number>) => void
}

/** Agents' sandboxes in a namespace of a cluster. */
export interface Pods {
  cluster: Cluster
  host: PodSandboxHost
  /** Identifies the namespace and not this machine: every worker that reaches the namespace serves its sandboxes, so none is lost
   *  with a worker's machine. */
  hostId: string
  hostQueue: string
  /** What all sandboxes together may request. */
  cpus: number
  /** Distinguishes two clusters whose namespaces have the same name. */
  identity: string
  watched: WatchedEngine
  listHeld: () => Promise<Held[]>
  /** Counts the gradings of this Temporal namespace, including those of other workers. */
  countGradings: () => Promise<number>
  /** Looks into images in pods, for the workflow whose activity runs. */
  inspector: ImageInspector
}

/** @throws LonghaulError `Config.Invalid`; `Sandbox.EngineUnavailable` if the cluster refuses this worker */
export async function openPods({ environment, pods, namespaceId, graders, log }: OpenPodsInput): Promise<Pods> {
  const cluster = await connectCluster({ namespace: pods.namespace })
  const { server, namespace } = cluster
  const hostId = `pods-${namespace}`.slice(0, 40)
  const hostQueue = QUEUES.sandboxHost(hostId, sha256Hex(`${server} ${namespace}`).slice(0, 8))
  try {
    await requirePods(cluster)
  } catch (error) {
    cluster.dispose()
    throw error
  }
  const host = createPodSandboxHost({
    cluster,
    hostId,
    hostQueue,
    namespaceId,
    runtime: environment.sandboxRuntime,
    ...(pods.seccompProfile === null ? {} : { seccompProfile: pods.seccompProfile }),
    graders,
    log,
  })
  return {
    cluster,
    host,
    hostId,
    hostQueue,
    cpus: pods.cpus,
    identity: `kubernetes ${server} ${namespace}`,
    watched: { name: `the cluster ${server}`, pulse: createClusterPulse(cluster) },
    listHeld: () => listHeldPods(cluster, namespaceId),
    countGradings: async () => countGraders(await listPods(cluster), namespaceId),
    inspector: {
      identify: (task, signal) => imageInPod(host.context, task, asker(), signal),
      check: (task, _digest, signal) => checkImageInPod(host.context, task, asker(), signal),
    },
  }
}

function asker(): Asker {
  const { workflowExecution: execution } = Context.current().info
  const { workflowId: owner = '', runId: ownerRun = '' } = execution ?? {}
  return { run: owner, owner, ownerRun }
}
