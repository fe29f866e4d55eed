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

/** Types of roots that publish policies for their run and release them at its end. */
const PUBLISHING_ROOTS = ['trainAgent', 'evaluate']

/**
 * Returns the open root that plays a run, other than the one that asks; null if none is open, or if the server cannot be asked.
 * @param claimedBy the workflow that first had the run's name, which the server's index may not show yet
 */
export async function findOtherRoot(
  connection: ServerConnection,
  { namespace, run, asking, claimedBy }: { namespace: string; run: string; asking: string; claimedBy: string },
): Promise<string | null> {
  try {
    const types = PUBLISHING_ROOTS.map((type) => `'${type}'`).join(', ')
    const query = `TrainRun = '${run}' AND ExecutionStatus = 'Running' AND WorkflowType IN (${types})`
    const { executions } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.listWorkflowExecutions({ namespace, query, pageSize: 100 }),
    )
    // Evaluations inside a training run have the run's name too.
    const listed = executions.filter(({ parentExecution }) => !parentExecution).map(({ execution }) => execution)
    const ids = new Set([claimedBy, ...listed.map((execution) => execution?.workflowId ?? '')])
    for (const workflowId of ids) {
      if (workflowId === '' || workflowId === asking) continue
      if (await isPlaying(connection, { namespace, workflowId, run })) return workflowId
    }
  } catch {
    // A namespace without the search attribute, or a server that does not answer: the workflows below the root still have one id each.
  }
  return null
}

/** A workflow that has just claimed the name does not have the attribute yet, and one of a later run has another. */
async function isPlaying(
  connection: ServerConnection,
  { namespace, workflowId, run }: { namespace: string; workflowId: string; run: string },
): Promise<boolean> {
  try {
    const { workflowExecutionInfo: info } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } }),
    )
    if ((info?.closeTime ?? null) !== null || !PUBLISHING_ROOTS.includes(info?.type?.name ?? '')) return false
    const data = info?.searchAttributes?.indexedFields?.['TrainRun']?.data
    return data === undefined || data === null || JSON.parse(Buffer.from(data).toString()) === run
  } catch (error) {
    if ((error as { code?: unknown }).code === NOT_FOUND) return false
    throw error
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
