/**
 * A query of a workflow that no worker has in its cache, while an event waits for its workflow task. Core would apply that event for the
 * query and keep the state, and the history of what the workflow does next could not be replayed.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { CompleteAsyncError } from '@temporalio/activity'
import type { WorkflowHandle } from '@temporalio/client'
import { NativeConnection, Worker } from '@temporalio/worker'
import { askWorkflow, type LonghaulConnection } from '../../src/client/connect.ts'
import { EARLY_QUERY } from '../../src/contracts/errors.ts'
import { eventually } from '../support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { endSignal, hasResultQuery, pokeSignal } from '../support/queries/early.workflows.ts'
import { buildBundleOf, type WorkflowBundle, workflowInterceptors } from '../support/workflow-bundle.ts'

const QUEUE = 'early'

describe('a query before the workflow task of an event', { skip: needsServer }, () => {
  let connection: LonghaulConnection
  let native: NativeConnection
  let bundle: WorkflowBundle

  before(async () => {
    bundle = await buildBundleOf(
      fileURLToPath(new URL('../support/queries/early.workflows.ts', import.meta.url)),
      console.error,
      workflowInterceptors(),
    )
    connection = await connectToOwnNamespace('early', { isBare: true })
    native = await NativeConnection.connect({ address: connection.address })
  })

  after(async () => {
    await native?.close()
    await connection?.close()
  })

  async function startWorker(): Promise<{ stop(): Promise<void> }> {
    const worker = await Worker.create({
      connection: native,
      namespace: connection.namespace,
      taskQueue: QUEUE,
      workflowBundle: bundle,
      maxConcurrentWorkflowTaskExecutions: 2,
      activities: {
        answerLater() {
          throw new CompleteAsyncError()
        },
      },
    })
    const running = worker.run()
    return {
      async stop() {
        worker.shutdown()
        await running
      },
    }
  }

  test('is refused, is answered when asked again, and the history can be replayed', async () => {
    const { client } = connection
    const first = await startWorker()
    const subject = await client.workflow.start('subject', { taskQueue: QUEUE, workflowId: 'subject' })
    await eventually(async () => assert.equal((await subject.describe()).raw.pendingActivities?.[0]?.state, 2))
    await first.stop()

    // Nothing waits for a workflow task yet, so the server gives the query to the next worker, whatever happens until then.
    const query = subject.query(hasResultQuery).then(String, String)
    await sleep(2_000)
    // They are older than the workflow task of the activity's end, which waits for them.
    for (let number = 0; number < 6; number += 1) {
      await client.workflow.start('busy', { taskQueue: QUEUE, workflowId: `busy-${number}` })
    }
    await client.activity.complete({ workflowId: 'subject', activityId: '1' }, null)

    const second = await startWorker()
    assert.match(await query, new RegExp(EARLY_QUERY))
    await subject.signal(pokeSignal)
    assert.equal(await askWorkflow({ connection, workflowId: 'subject' }, hasResultQuery.name, 60_000), true)
    await subject.signal(endSignal)
    await subject.result()
    await second.stop()

    const { history, together } = await read(subject)
    assert.ok(together, 'the event and the signal did not come with one workflow task')
    await Worker.runReplayHistory({ workflowBundle: bundle }, history, 'subject')
  })
})

/** The history, and whether the activity's end and the first signal came with the same workflow task. */
async function read(handle: WorkflowHandle) {
  const history = await handle.fetchHistory()
  const events = history.events ?? []
  const end = events.findIndex((event) => event.activityTaskCompletedEventAttributes)
  const poke = events.findIndex((event) => event.workflowExecutionSignaledEventAttributes)
  const between = events.slice(end, poke)
  assert.ok(end > 0 && poke > end)
  return { history, together: !between.some((event) => event.workflowTaskStartedEventAttributes) }
}
