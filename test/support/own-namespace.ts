import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { msToTs } from '@temporalio/common/lib/time.js'
import { connect, type LonghaulConnection } from '../../src/client/index.ts'
import { prepareNamespace } from '../../src/stack/temporal-namespace.ts'
import { eventually } from './hang.ts'

/** Reason to skip a test that needs a server; `npm test` starts one. */
export const needsServer =
  (process.env['LONGHAUL_TEMPORAL_ADDRESS'] ?? '') === '' ? 'needs LONGHAUL_TEMPORAL_ADDRESS' : false

/**
 * A namespace that no worker of the stack serves: runs in it wait, so the test controls their states. It exists as long as the
 * server's database. A bare one has no search attributes of Longhaul's, so no run starts in it.
 */
export async function connectToOwnNamespace(
  topic: string,
  { isBare = false }: { isBare?: boolean } = {},
): Promise<LonghaulConnection> {
  const namespace = `${topic}-${randomUUID().slice(0, 8)}`
  const any = await connect()
  await any.client.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod: msToTs('1 day') })
  await any.close()
  if (!isBare) await eventually(() => prepareNamespace({ address: any.address, namespace, raiseRetention: false }))
  // The server's caches learn of a new namespace within seconds.
  const connection = await eventually(() => connect({ namespace }))
  await eventually(async () => {
    for await (const _ of connection.client.workflow.list({ query: `WorkflowType = 'none'` })) break
  })
  return connection
}

export interface OwnPlace {
  connection: LonghaulConnection
  /** Variables for commands and workers: this namespace, and artifacts below the given folder. */
  environment: NodeJS.ProcessEnv
}

/** The same with the variables of processes that play runs there. */
export async function prepareOwnNamespace(topic: string, scratch: string): Promise<OwnPlace> {
  const connection = await connectToOwnNamespace(topic)
  const { address, namespace } = connection
  const environment = {
    ...process.env,
    LONGHAUL_TEMPORAL_ADDRESS: address,
    LONGHAUL_NAMESPACE: namespace,
    LONGHAUL_ARTIFACTS: join(scratch, 'artifacts'),
  }
  return { connection, environment }
}
