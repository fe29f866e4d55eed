import { randomUUID } from 'node:crypto'
import type { NativeConnection } from '@temporalio/worker'
import type { OwnerRegistry } from '../adapters/docker/reaper/reap-orphaned.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { readPlacements } from '../activities/episode/claim-placement.ts'
import type { ChildRegistry } from '../activities/run/cancel-left.ts'
import type { RootRegistry } from '../activities/run/play-alone.ts'
import { LonghaulError } from '../contracts/errors.ts'
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

/** Types of workflows that play a run of their own. */
const ROOT_TYPES = ['trainAgent', 'evaluate', 'gateSuite', 'gradePredictions']

export function createRootRegistry(connection: ServerConnection, namespace: string): RootRegistry {
  const isPlaying = async ({ run, workflowId }: { run: string; workflowId: string }): Promise<boolean> => {
    try {
      const { workflowExecutionInfo: info } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
        connection.workflowService.describeWorkflowExecution({ namespace, execution: { workflowId } }),
      )
      if ((info?.closeTime ?? null) !== null || !ROOT_TYPES.includes(info?.type?.name ?? '')) return false
      // A workflow of a later run has another name here, and one that has just asked for this run has none yet.
      const data = info?.searchAttributes?.indexedFields?.['TrainRun']?.data
      return data === undefined || data === null || JSON.parse(Buffer.from(data).toString()) === run
    } catch (cause) {
      if ((cause as { code?: unknown }).code === NOT_FOUND) return false
      throw unreachable(`tell whether ${workflowId} plays run ${run}`, { run, workflow: workflowId }, cause)
    }
  }
  return {
    isPlaying,
    async findListed({ run, asking }) {
      for (const workflowId of await listRoots(connection, { namespace, run })) {
        if (workflowId !== asking && (await isPlaying({ run, workflowId }))) return workflowId
      }
      return null
    },
  }
}

async function listRoots(
  connection: ServerConnection,
  { namespace, run }: { namespace: string; run: string },
): Promise<string[]> {
  const types = ROOT_TYPES.map((type) => `'${type}'`).join(', ')
  const query = `TrainRun = '${run}' AND CloseTime IS NULL AND WorkflowType IN (${types})`
  try {
    const { executions } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.listWorkflowExecutions({ namespace, query, pageSize: 100 }),
    )
    // Evaluations inside a training run have the run's name too.
    return executions.flatMap(({ parentExecution, execution }) =>
      parentExecution || !execution?.workflowId ? [] : [execution.workflowId],
    )
  } catch {
    // A namespace without the search attribute. Only roots of earlier versions, which are recorded nowhere else, need the index.
    return []
  }
}

/** @throws LonghaulError `Temporal.Unreachable` */
export function createChildRegistry(connection: ServerConnection, namespace: string): ChildRegistry {
  const { workflowService } = connection
  const left = (workflow: string, cause: unknown): LonghaulError =>
    unreachable(`find or cancel what ${workflow} has left`, { workflow }, cause)
  return {
    async listOpen({ parent, before }) {
      // A quote would end the query's text.
      if (parent.includes("'")) return []
      const began = new Date(before).toISOString()
      const query = `ParentWorkflowId = '${parent}' AND CloseTime IS NULL AND StartTime <= '${began}'`
      try {
        const { executions } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
          workflowService.listWorkflowExecutions({ namespace, query, pageSize: 1_000 }),
        )
        return executions.flatMap(({ execution }) => execution?.workflowId ?? [])
      } catch (cause) {
        throw left(parent, cause)
      }
    },
    async cancel(workflowId) {
      const request = { namespace, workflowExecution: { workflowId }, requestId: randomUUID() }
      try {
        await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
          workflowService.requestCancelWorkflowExecution(request),
        )
      } catch (cause) {
        if ((cause as { code?: unknown }).code !== NOT_FOUND) throw left(workflowId, cause)
      }
    },
  }
}

function unreachable(expected: string, details: Record<string, string>, cause: unknown): LonghaulError {
  const message = `Expected the Temporal server to ${expected}, got ${String(cause)}`
  return new LonghaulError({ code: 'Temporal.Unreachable', message, details, cause })
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
