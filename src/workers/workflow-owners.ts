import type { NativeConnection } from '@temporalio/worker'
import type { OwnerRegistry } from '../adapters/docker/reaper/reap-orphaned.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { readPlacements } from '../activities/episode/claim-placement.ts'
import type { OwnerState } from '../domain/orphaned-resources.ts'

/** The methods that both the worker's and the client's connections have. */
export type ServerConnection = Pick<NativeConnection, 'workflowService' | 'withDeadline'>

/** A server that does not answer a look-up within this time counts as unreachable for this sweep. */
const CALL_TIMEOUT_MS = 5_000

/** gRPC status for something that the server does not know. */
const NOT_FOUND = 5

export interface OwnerRegistryInput {
  connection: ServerConnection
  namespace: string
  store: Pick<ArtifactStore, 'list' | 'readRecord'>
}

/** Asks Temporal about workflows and the store about placements. If one cannot be asked, the result is unknown and nothing is removed. */
export function createOwnerRegistry({ connection, namespace, store }: OwnerRegistryInput): OwnerRegistry {
  return {
    stateOf: (workflowId) => describeOwner(connection, { namespace, workflowId }),
    async hasPlacementAfter({ episode, fence, ownerRun }) {
      // Not only the next number, because placements of other executions may lie between them.
      const placements = await readPlacements(store, episode).catch(() => [])
      return placements.some((one) => one.placement > fence && one.ownerRun === ownerRun)
    },
  }
}

/** Returns null if the server cannot be asked. */
export async function describeOwner(
  connection: ServerConnection,
  { namespace, workflowId }: { namespace: string; workflowId: string },
): Promise<OwnerState | null> {
  try {
    const { workflowExecutionInfo: info } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } }),
    )
    // This is the latest execution of the id. One that continued as new or was reset has a successor with the same id.
    if ((info?.closeTime ?? null) !== null) return { kind: 'closed' }
    return { kind: 'running', runId: info?.execution?.runId ?? '' }
  } catch (error) {
    return (error as { code?: unknown }).code === NOT_FOUND ? { kind: 'unknown' } : null
  }
}

/** Returns the identity of a namespace on its server. It is assigned once at registration, so it distinguishes two servers that both
 *  have a `default`. Null if the server does not answer. */
export async function namespaceIdOf(connection: ServerConnection, namespace: string): Promise<string | null> {
  try {
    const { namespaceInfo } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.describeNamespace({ namespace }),
    )
    return namespaceInfo?.id ?? null
  } catch {
    return null
  }
}
