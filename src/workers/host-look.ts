import type { HostDoor } from '../activities/runtime/host-door.ts'
import { listSandboxes } from '../adapters/docker/container/list-sandboxes.ts'
import type { Engine } from '../adapters/docker/engine/engine.ts'
import type { Admission } from '../adapters/docker/sandbox/admission.ts'
import type { HostFacts, HostResources } from '../contracts/hosts.types.ts'

interface HostLookInput {
  engine: Engine
  namespaceId: string
  admission: Pick<Admission, 'look'>
  door: Pick<HostDoor, 'isOpen'>
}

/** What a host holds, as its engine tells it: sandboxes and gradings of this Temporal namespace, whichever worker opened them. */
export function createHostLook({ engine, namespaceId, admission, door }: HostLookInput): () => Promise<HostFacts> {
  const since = new Date().toISOString()
  let gradings = 0
  return async () => {
    const { sandboxes, requested, capacity, trouble } = await admission.look()
    if (trouble === null) gradings = await countGradings({ engine, namespaceId }).catch(() => gradings)
    return {
      since,
      takesWork: door.isOpen,
      sandboxes,
      gradings,
      requested: sayable(requested),
      capacity: sayable(capacity),
      trouble,
    }
  }
}

async function countGradings({ engine, namespaceId }: Pick<HostLookInput, 'engine' | 'namespaceId'>): Promise<number> {
  const all = await listSandboxes({ engine })
  return all.filter(
    ({ role, state, namespaceId: owners }) => role !== 'agent' && state !== 'ended' && owners === namespaceId,
  ).length
}

function sayable({ cpus, memoryMiB }: { cpus: number; memoryMiB: number }): HostResources {
  return { cpus, memoryMiB: Number.isFinite(memoryMiB) ? memoryMiB : null }
}
