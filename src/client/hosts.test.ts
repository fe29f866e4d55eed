/** Orders for a host on a real server without workers: what stands in its memo says whether an order is new. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { connectToOwnNamespace, needsServer } from '../../test/support/own-namespace.ts'
import type { HostDrain, HostInput } from '../contracts/hosts.types.ts'
import { HOST_TYPE, workflowIds } from '../contracts/workflow-ids.ts'
import type { LonghaulConnection } from './connect.ts'
import { drainHost } from './hosts.ts'

const MINUTE = 60_000

describe('orders for a host', { skip: needsServer }, () => {
  let connection: LonghaulConnection
  before(async () => {
    connection = await connectToOwnNamespace('hosts-test')
  })
  after(() => connection?.close())

  async function startHost(host: string, drain: HostDrain): Promise<void> {
    const state = { holder: { queue: 'q', engine: 'e' }, drain }
    await connection.client.workflow.start(HOST_TYPE, {
      taskQueue: 'none',
      workflowId: workflowIds.host(host),
      args: [{ host, ...state } satisfies HostInput],
      memo: { host: state },
    })
  }

  async function signalsTo(host: string): Promise<number> {
    const { events } = await connection.client.workflow.getHandle(workflowIds.host(host)).fetchHistory()
    return (events ?? []).filter(({ workflowExecutionSignaledEventAttributes: signal }) => Boolean(signal)).length
  }

  test('a repeated drain with the same grace time keeps its deadline, and another grace time is a new order', async () => {
    const since = new Date().toISOString()
    const moveAt = new Date(Date.now() + 10 * MINUTE).toISOString()
    await startHost('a', { since, moving: false, moveAt, graceMs: 10 * MINUTE })
    const again = await drainHost({ connection, host: 'a', graceMs: 10 * MINUTE })
    assert.deepEqual([again.changed, again.state.drain?.moveAt, await signalsTo('a')], [false, moveAt, 0])
    const longer = await drainHost({ connection, host: 'a', graceMs: 20 * MINUTE, dryRun: true })
    assert.ok(longer.changed && (longer.state.drain?.moveAt ?? '') > moveAt)
    const sent = await drainHost({ connection, host: 'a', graceMs: 20 * MINUTE })
    assert.deepEqual([sent.changed, sent.pending, await signalsTo('a')], [true, true, 1])
  })

  test('a repeated drain after the grace time does not stop moving episodes', async () => {
    const since = new Date(Date.now() - 20 * MINUTE).toISOString()
    const moveAt = new Date(Date.now() - 10 * MINUTE).toISOString()
    await startHost('b', { since, moving: true, moveAt, graceMs: 10 * MINUTE })
    const again = await drainHost({ connection, host: 'b', graceMs: 10 * MINUTE })
    assert.deepEqual([again.changed, again.state.drain?.moving, await signalsTo('b')], [false, true, 0])
  })
})
