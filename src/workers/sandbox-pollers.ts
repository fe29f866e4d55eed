import type { NativeConnection } from '@temporalio/worker'
import { QUEUES } from '../contracts/workflow-ids.ts'

type Connection = Pick<NativeConnection, 'workflowService' | 'withDeadline'>
type QueueType = NonNullable<Parameters<Connection['workflowService']['describeTaskQueue']>[0]['taskQueueType']>

/** `temporal.api.enums.v1.TaskQueueType`, whose package is none of the worker's. */
const ACTIVITY = 2 as unknown as QueueType

const CALL_TIMEOUT_MS = 5_000

/** Who polls for work on sandboxes, as the server remembers it for some minutes. Null where it does not answer. */
export async function sandboxPollers(connection: Connection, namespace: string): Promise<string[] | null> {
  try {
    const { pollers } = await connection.withDeadline(Date.now() + CALL_TIMEOUT_MS, () =>
      connection.workflowService.describeTaskQueue({
        namespace,
        taskQueue: { name: QUEUES.sandbox },
        taskQueueType: ACTIVITY,
      }),
    )
    return (pollers ?? []).flatMap(({ identity }) => (identity ? [identity] : []))
  } catch {
    return null
  }
}
