/** Membership of a sandbox host, on a real server in a namespace without a control worker. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { connectToOwnNamespace, needsServer } from '../../test/support/own-namespace.ts'
import { joinHost } from '../client/index.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import { joinAsHost } from './host-membership.ts'

/**
 * A machine was started anew while no control worker answered: its memo names the boot before. Each look said once more that it had
 * arrived, 1,200 events an hour, up to the limit at which the server refuses signals, an order to drain too.
 */
test('a restarted machine announces itself once and obeys the last order while no control worker answers', {
  skip: needsServer,
}, async () => {
  const connection = await connectToOwnNamespace('membership')
  const { address, namespace } = connection
  const host = 'node-7'
  const engine = 'engine-1 /var/lib/docker'
  await joinHost({ connection, host, holder: { queue: 'sandbox.node-7.before', engine } })
  const looked = Promise.withResolvers<void>()
  let obeyed = 0
  const membership = await joinAsHost({
    temporal: { address, namespace },
    host,
    holder: { queue: 'sandbox.node-7.after', engine },
    door: {
      obey: () => {
        obeyed += 1
        if (obeyed === 6) looked.resolve()
        return false
      },
    },
    log: () => {},
    lookEveryMs: 20,
  })
  await Promise.race([looked.promise, membership.broken])
  await membership.stop()
  const handle = connection.client.workflow.getHandle(workflowIds.host(host))
  const { events } = await handle.fetchHistory()
  const arrivals = events?.filter((event) => event.workflowExecutionSignaledEventAttributes)
  assert.equal(arrivals?.length, 1)
  await handle.terminate('end of test')
  await connection.close()
})
