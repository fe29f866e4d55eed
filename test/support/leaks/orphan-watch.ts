/** Inspects the engine from outside by its own rules, independently of the reaper. */
import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type OrphanedResource, listOrphanedResources } from '../../../src/adapters/docker/reaper/list-orphaned.ts'
import type { PipelineWorld } from '../pipeline-world.ts'

const INTERVAL_MS = 1_000

export interface OrphanWatch {
  /** All current resources of this namespace. */
  present(): Promise<OrphanedResource[]>
  /** The role of each container that was ever seen, by its id. */
  seen(): Map<string, string>
  /** Longest time, in seconds, that a resource stayed after its owner had closed or it had ended. */
  longestOverdueS(): number
  stop(): Promise<void>
}

/** Records since when each resource has been orphaned: its workflow is closed, or the resource has ended by itself. */
export function watchOrphaned(world: PipelineWorld, namespaceId: string): OrphanWatch {
  const seen = new Map<string, string>()
  const overdueSince = new Map<string, number>()
  let longestMs = 0
  const stopping = new AbortController()

  const present = async (): Promise<OrphanedResource[]> => {
    const all = await listOrphanedResources({
      engine: world.engine,
      now: Date.now(),
      signal: AbortSignal.timeout(30_000),
    })
    return all.filter((resource) => resource.namespaceId === namespaceId)
  }
  const look = async (): Promise<void> => {
    const things = await present()
    for (const { kind, id, role } of things) if (kind === 'container') seen.set(id, role)
    const closed = await closedOwners(world, new Set(things.map(({ owner }) => owner)))
    const now = Date.now()
    const overdue = things.filter(({ owner, state }) => state === 'ended' || closed.has(owner))
    for (const id of overdueSince.keys()) if (!overdue.some((thing) => thing.id === id)) overdueSince.delete(id)
    for (const { id } of overdue) {
      const since = overdueSince.get(id) ?? now
      overdueSince.set(id, since)
      longestMs = Math.max(longestMs, now - since)
    }
  }
  const watching = (async () => {
    while (!stopping.signal.aborted) {
      // Temporal is killed too; the next check tries again.
      await look().catch(() => undefined)
      await sleep(INTERVAL_MS, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  })()
  return {
    present,
    seen: () => seen,
    longestOverdueS: () => longestMs / 1000,
    async stop() {
      stopping.abort()
      await watching
    },
  }
}

async function closedOwners(world: PipelineWorld, owners: Set<string>): Promise<Set<string>> {
  const closed = new Set<string>()
  await Promise.all(
    [...owners].map(async (owner) => {
      const { status } = await world.connection.client.workflow.getHandle(owner).describe()
      if (status.name !== 'RUNNING') closed.add(owner)
    }),
  )
  return closed
}

/** Processes of the machine that still belong to one of the containers: its shim, or any process in its cgroup. */
export function processesOf(containerIds: ReadonlyMap<string, string>): string[] {
  return readdirSync('/proc')
    .filter((pid) => /^\d+$/.test(pid))
    .flatMap((pid) => {
      const text = `${read(`/proc/${pid}/cmdline`)} ${read(`/proc/${pid}/cgroup`)}`
      const ids = text.match(/[0-9a-f]{64}/g) ?? []
      return ids.some((id) => containerIds.has(id)) ? [`${pid} ${read(`/proc/${pid}/cmdline`).slice(0, 200)}`] : []
    })
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8').replaceAll('\0', ' ')
  } catch {
    return ''
  }
}
