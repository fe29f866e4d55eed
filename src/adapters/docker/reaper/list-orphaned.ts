import type { OrphanedResourceFacts } from '../../../domain/orphaned-resources.ts'
import { isStatus } from '../engine/engine-errors.ts'
import type { Engine } from '../engine/engine.ts'
import { type LabelFacts, PROJECT_FILTER, readLabels } from '../container/labels.ts'
import { listSandboxes } from '../container/list-sandboxes.ts'

/** A container, network or volume of ours in the engine, which its owner or the reaper must remove. */
export interface OrphanedResource extends OrphanedResourceFacts, LabelFacts {
  id: string
  name: string
}

export interface ListOrphanedResourcesInput {
  engine: Engine
  /** Milliseconds since 1970, by a monotonic clock. */
  now: number
  signal: AbortSignal
}

/** Containers come first, because their removal frees networks and volumes. */
export async function listOrphanedResources(input: ListOrphanedResourcesInput): Promise<OrphanedResource[]> {
  const containers = await listContainers(input)
  const [networks, volumes] = await Promise.all([listNetworks(input), listVolumes(input)])
  return [...containers, ...networks, ...volumes]
}

async function listContainers({ engine, now, signal }: ListOrphanedResourcesInput): Promise<OrphanedResource[]> {
  const sandboxes = await listSandboxes({ engine, now, signal })
  return Promise.all(
    sandboxes.map(async (sandbox): Promise<OrphanedResource> => {
      const end = sandbox.state === 'ended' ? await endOf(engine, sandbox.containerId, { now, signal }) : NOT_ENDED
      // The lease loop is the main process of an agent's container and exits with 0 when the lease expires.
      const endedByLease = sandbox.role === 'agent' && end.exitCode === 0
      return { ...sandbox, kind: 'container', id: sandbox.containerId, endedForMs: end.forMs, endedByLease }
    }),
  )
}

const NOT_ENDED = { forMs: null, exitCode: null }

async function endOf(
  engine: Engine,
  id: string,
  { now, signal }: { now: number; signal: AbortSignal },
): Promise<{ forMs: number | null; exitCode: number | null }> {
  try {
    const { State: state } = await engine.docker.getContainer(id).inspect({ abortSignal: signal })
    // A container that the engine lost track of has no end time, so its creation time is used.
    const ended = Date.parse(state.FinishedAt)
    return { forMs: Number.isFinite(ended) && ended > 0 ? now - ended : null, exitCode: state.ExitCode }
  } catch (error) {
    if (isStatus(error, 404)) return NOT_ENDED
    throw error
  }
}

async function listNetworks({ engine, now, signal }: ListOrphanedResourcesInput): Promise<OrphanedResource[]> {
  const networks = await engine.docker.listNetworks({ filters: { label: [PROJECT_FILTER] }, abortSignal: signal })
  return networks.map(({ Id, Name, Labels: labels }) => ({
    ...readLabels(labels ?? {}, now),
    ...READY,
    kind: 'network',
    id: Id,
    name: Name,
  }))
}

async function listVolumes({ engine, now, signal }: ListOrphanedResourcesInput): Promise<OrphanedResource[]> {
  const answer = await engine.docker.listVolumes({ filters: { label: [PROJECT_FILTER] }, abortSignal: signal })
  // The API returns null if the engine has no volumes.
  const volumes = (answer.Volumes as typeof answer.Volumes | null) ?? []
  return volumes.map(({ Name, Labels: labels }) => ({
    ...readLabels(labels, now),
    ...READY,
    kind: 'volume',
    id: Name,
    name: Name,
  }))
}

const READY = { state: 'ready', endedForMs: null, endedByLease: false } as const
