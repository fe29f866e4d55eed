import type { WorkflowService } from '@temporalio/client'
import type { LonghaulConnection } from '../connect.ts'
import type { ListedHost } from '../hosts.ts'
import { millis } from './pending-activities.ts'

/** Who polls a task queue, as the server remembers it for some minutes. */
export interface QueueState {
  /** ms since 1970; null: the server remembers no poller. */
  lastPollMs: number | null
  /** `pid@host` of the last to poll. */
  lastWorker: string | null
  /** A worker of this queue gives signs of life from other work: it may be full, and full workers do not poll. */
  isBusy: boolean
  /** Hosts that serve it, where all of them are drained. @default none */
  drained?: readonly ListedHost[]
}

type QueueType = NonNullable<Parameters<WorkflowService['describeTaskQueue']>[0]['taskQueueType']>

/** `temporal.api.enums.v1.TaskQueueType`, whose package is none of the client's. */
const TYPES: Record<'workflow' | 'activity', unknown> = { workflow: 1, activity: 2 }

export async function describeQueue({
  connection: { client, namespace },
  queue,
  type,
}: {
  connection: LonghaulConnection
  queue: string
  type: 'workflow' | 'activity'
}): Promise<QueueState> {
  const taskQueueType = TYPES[type] as QueueType
  const request = { namespace, taskQueue: { name: queue }, taskQueueType }
  const { pollers } = await client.workflowService.describeTaskQueue(request)
  let state: QueueState = { lastPollMs: null, lastWorker: null, isBusy: false }
  for (const { lastAccessTime, identity } of pollers ?? []) {
    const lastPollMs = millis(lastAccessTime)
    if (lastPollMs !== null && lastPollMs > (state.lastPollMs ?? 0)) {
      state = { ...state, lastPollMs, lastWorker: identity ?? null }
    }
  }
  return state
}
