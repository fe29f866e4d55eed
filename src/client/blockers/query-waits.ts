import { QueryNotRegisteredError } from '@temporalio/client'
import type { WorkflowWaits } from '../../contracts/waits.types.ts'
import { type LonghaulConnection, grpcStatus } from '../connect.ts'

/** Shorter than the server's own limit: a query without a worker would block for that long. */
const ANSWER_MS = 3_000

/**
 * What a workflow says that it waits for itself; null for one that has no such query or is closed.
 * @returns `no-answer` while no worker runs workflows
 */
export async function queryWaits({
  connection: { client },
  workflowId,
}: {
  connection: LonghaulConnection
  workflowId: string
}): Promise<WorkflowWaits | null | 'no-answer'> {
  try {
    return await client.withDeadline(Date.now() + ANSWER_MS, () =>
      client.workflow.getHandle(workflowId).query<WorkflowWaits>('blockers'),
    )
  } catch (error) {
    if (error instanceof QueryNotRegisteredError) return null
    const status = grpcStatus(error)
    // 9: no poller, 4 and 1: not in time, 14: unavailable. What else the server says is about the query, not about workers.
    return status === 9 || status === 4 || status === 1 || status === 14 ? 'no-answer' : null
  }
}
