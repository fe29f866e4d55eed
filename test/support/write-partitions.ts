import type { LonghaulConnection } from '../../src/client/index.ts'
import { QUEUES } from '../../src/contracts/workflow-ids.ts'

/** How many partitions of the control queue get new tasks. */
export async function writePartitions({ client, namespace }: LonghaulConnection): Promise<number> {
  const { workflowTaskQueuePartitions } = await client.workflowService.listTaskQueuePartitions({
    namespace,
    taskQueue: { name: QUEUES.control },
  })
  return workflowTaskQueuePartitions?.length ?? 0
}
