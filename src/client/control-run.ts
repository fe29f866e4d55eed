import { QueryNotRegisteredError, WorkflowUpdateFailedError } from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'
import type { RunProgress } from '../contracts/workflows.types.ts'
import { CALL_TIMEOUT_MS, isNotFound, type LonghaulConnection } from './connect.ts'

export interface RunAddress {
  connection: LonghaulConnection
  workflowId: string
}

/** Nothing new starts until `resumeRun`; episodes under way go on. Pausing twice changes nothing. */
export function pauseRun(address: RunAddress): Promise<RunProgress> {
  return update(address, 'pause')
}

export function resumeRun(address: RunAddress): Promise<RunProgress> {
  return update(address, 'resume')
}

/** The open reinforcement stage ends after this iteration, from 1; the run then goes on with what follows the stage. */
export function stopRunAfterIteration(address: RunAddress & { iteration: number }): Promise<RunProgress> {
  return update(address, 'stopAfterIteration', { iteration: address.iteration })
}

/** Asks the run to end; it closes its sandboxes and gives leases back. Returns at once. */
export async function cancelRun({ connection, workflowId }: RunAddress): Promise<void> {
  await called({ connection, workflowId }, () => connection.client.workflow.getHandle(workflowId).cancel())
}

/** What the run says of itself; null while no worker answers, and for evaluations, which have no such query. */
export async function queryProgress({ connection, workflowId }: RunAddress): Promise<RunProgress | null> {
  const handle = connection.client.workflow.getHandle(workflowId)
  try {
    // Shorter than the server's own limit: a query without a worker would block for that long.
    return await connection.client.withDeadline(Date.now() + 3_000, () => handle.query<RunProgress>('progress'))
  } catch (error) {
    if (isNotFound(error)) throw unknownRun(workflowId, error)
    if (error instanceof QueryNotRegisteredError || isCallFailure(error)) return null
    throw error
  }
}

function update(address: RunAddress, name: string, requested?: { iteration: number }): Promise<RunProgress> {
  const handle = address.connection.client.workflow.getHandle(address.workflowId)
  return called(address, () =>
    requested === undefined
      ? handle.executeUpdate<RunProgress, []>(name)
      : handle.executeUpdate<RunProgress, [typeof requested]>(name, { args: [requested] }),
  )
}

async function called<T>({ connection, workflowId }: RunAddress, call: () => Promise<T>): Promise<T> {
  try {
    return await connection.client.withDeadline(Date.now() + CALL_TIMEOUT_MS, call)
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) {
      throw new LonghaulError({ code: 'Config.Invalid', message: error.cause?.message ?? error.message, cause: error })
    }
    if (isNotFound(error)) throw unknownRun(workflowId, error)
    if (isCallFailure(error)) {
      throw new LonghaulError({
        code: 'Temporal.Unreachable',
        message: `The run did not answer within ${CALL_TIMEOUT_MS / 1000} s: is a control worker running (longhaul worker --role control)?`,
        details: { workflowId },
        cause: error,
      })
    }
    throw error
  }
}

function unknownRun(workflowId: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `No run under way is called ${workflowId}`,
    cause,
  })
}

/** A call that was not answered, wherever the SDK puts the gRPC status (4 deadline, 9 no poller, 14 unavailable). */
function isCallFailure(error: unknown): boolean {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    if ([1, 4, 9, 14].includes(Number((link as { code?: unknown }).code))) return true
    if (link.name === 'WorkflowUpdateRPCTimeoutOrCancelledError') return true
  }
  return false
}
