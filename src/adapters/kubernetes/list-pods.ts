import type { Held } from '../docker/sandbox/admission.ts'
import { placeKey } from '../docker/sandbox/admission.ts'
import type { ListedSandbox } from '../docker/container/list-sandboxes.ts'
import { PROJECT_FILTER, readLabels } from '../docker/container/labels.ts'
import type { OrphanedResource } from '../docker/reaper/list-orphaned.ts'
import type { ResourceHolder } from '../docker/reaper/reap-orphaned.ts'
import { toClusterError, unlessRefused } from './cluster-errors.ts'
import type { Cluster } from './cluster.ts'
import type { Pod } from './pod-spec.ts'
import { START_MS, isTakenAway, statusOfSandbox } from './pod-state.ts'

interface ListedPod extends ListedSandbox {
  pod: Pod
}

/** Lists the pods of sandboxes. Times are milliseconds since 1970. @param now @default the clock */
export async function listPods(
  cluster: Cluster,
  { now = Date.now(), signal }: { now?: number; signal?: AbortSignal } = {},
): Promise<ListedPod[]> {
  const path = `${cluster.pathOf('pods')}?labelSelector=${encodeURIComponent(PROJECT_FILTER)}`
  const { items } = (await cluster.ask({ path, ...(signal === undefined ? {} : { signal }) })) as { items: Pod[] }
  return items.map((pod) => {
    const state = stateOf(pod)
    return {
      ...readLabels(pod.metadata.annotations ?? {}, now),
      name: pod.metadata.name,
      containerId: pod.metadata.uid ?? '',
      isRunning: state === 'running',
      state,
      pod,
    }
  })
}

/** The same, to find out whether the namespace can be used.
 *  @throws LonghaulError `Sandbox.EngineUnavailable` with what the cluster refuses */
export async function requirePods(cluster: Cluster): Promise<ListedPod[]> {
  try {
    return await listPods(cluster)
  } catch (error) {
    const { server, namespace } = cluster
    const details = { server, namespace }
    throw toClusterError(error, { doing: `looking at the pods of the namespace ${namespace}`, details })
  }
}

function stateOf(pod: Pod): ListedSandbox['state'] {
  const { phase } = pod.status ?? {}
  if (phase === 'Succeeded' || phase === 'Failed' || isTakenAway(pod)) return 'ended'
  return phase === 'Pending' ? 'created' : 'running'
}

/** Lists the sandboxes that occupy a place, as `listHeld` does for an engine. */
export async function listHeldPods(cluster: Cluster, namespaceId: string): Promise<Held[]> {
  const pods = await listPods(cluster)
  return pods.flatMap(({ episode, fence, request, name, state, namespaceId: owners }) =>
    request === null || state === 'ended' || owners !== namespaceId
      ? []
      : [{ key: placeKey(episode, fence), request, name }],
  )
}

/** Gives the reaper access to the pods of a namespace. */
export function resourcesOfCluster(cluster: Cluster): ResourceHolder {
  return {
    async list({ now, signal }) {
      const pods = await listPods(cluster, { now, signal })
      return pods.map((sandbox): OrphanedResource => {
        const end = statusOfSandbox(sandbox.pod)?.state?.terminated
        const ended = Date.parse(end?.finishedAt ?? '')
        return {
          ...sandbox,
          kind: 'container',
          id: sandbox.name,
          // Its lease begins with its runner. Until then it may wait for a node and for its image.
          leaseMs: sandbox.state === 'created' ? Math.max(sandbox.leaseMs, START_MS) : sandbox.leaseMs,
          endedForMs: sandbox.state !== 'ended' ? null : Number.isFinite(ended) ? now - ended : sandbox.ageMs,
          endedByLease: sandbox.state === 'ended' && sandbox.role === 'agent' && end?.exitCode === 0,
        }
      })
    },
    async remove({ name }, signal) {
      try {
        await deletePod(cluster, name, { signal })
        return 'removed'
      } catch (error) {
        signal.throwIfAborted()
        return { error: error instanceof Error ? error.message : String(error) }
      }
    },
  }
}

/**
 * Deletes a pod and, within a second, all of its processes. A pod that is gone counts as deleted.
 * @param only its uid: another pod of the name stays. @default whichever pod has the name
 */
export async function deletePod(
  cluster: Cluster,
  name: string,
  { signal, only }: { signal?: AbortSignal; only?: string | undefined } = {},
): Promise<void> {
  const body = {
    kind: 'DeleteOptions',
    apiVersion: 'v1',
    gracePeriodSeconds: 1,
    propagationPolicy: 'Background',
    ...(only === undefined ? {} : { preconditions: { uid: only } }),
  }
  const path = cluster.pathOf('pods', name)
  const asked = cluster.ask({ method: 'DELETE', path, body, ...(signal === undefined ? {} : { signal }) })
  await unlessRefused(only === undefined ? [404] : [404, 409], asked)
}
