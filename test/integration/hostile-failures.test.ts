/**
 * What a server or a row says is quoted in the message of a failure. Half of a character there (`\ud800` in JSON, or an emoji that the cut
 * of a quote splits) is no valid text for the SDK's core, which ended the whole worker with all episodes that it was playing.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { NativeConnection, Worker } from '@temporalio/worker'
import { activity } from '../../src/activities/runtime/activity-runtime.ts'
import type { LonghaulConnection } from '../../src/client/index.ts'
import { dataConverterOf } from '../../src/platform/data-converter.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'
import { buildBundleOf } from '../support/workflow-bundle.ts'

const HALF = '\ud800'

/** How a failure can hold half of a character. */
const FAILURES: [where: string, fail: () => never][] = [
  [
    'its message',
    () => {
      throw new Error(`the server said ${HALF}`)
    },
  ],
  [
    'the message of its cause',
    () => {
      throw new Error('the answer is no JSON', { cause: new SyntaxError(`Unexpected token ${HALF}`) })
    },
  ],
  [
    'the name of its class',
    () => {
      throw Object.assign(new Error('wrong'), { name: `Wrong${HALF}` })
    },
  ],
]

describe('failures that quote half of a character', { skip: needsServer }, () => {
  let connection: LonghaulConnection
  let native: NativeConnection
  let worker: Worker
  let running: Promise<void>
  let fail = (): never => assert.fail('no failure is chosen')

  before(async () => {
    connection = await connectToOwnNamespace('hostile-failures')
    native = await NativeConnection.connect({ address: connection.address })
    worker = await Worker.create({
      connection: native,
      namespace: connection.namespace,
      taskQueue: 'hostile',
      workflowBundle: await buildBundleOf(
        fileURLToPath(new URL('../support/hostile/fails.workflow.ts', import.meta.url)),
      ),
      activities: { fail: activity(() => Promise.resolve().then(() => fail())) },
      ...dataConverterOf(),
    })
    running = worker.run()
    // Judged below.
    running.catch(() => undefined)
  })

  after(async () => {
    if (worker.getState() === 'RUNNING') worker.shutdown()
    await running.catch(() => undefined)
    await native.close()
    await connection.close()
  })

  for (const [where, chosen] of FAILURES) {
    test(`a failure with half of a character in ${where} reaches the run, and the worker goes on`, async () => {
      fail = chosen
      const workflowId = `fails-${FAILURES.findIndex(([name]) => name === where)}`
      const handle = await connection.client.workflow.start('callFail', {
        taskQueue: 'hostile',
        workflowId,
        workflowExecutionTimeout: '1 minute',
      })
      assert.equal(await handle.result(), 'Unexpected')
      assert.equal(worker.getState(), 'RUNNING')
    })
  }
})
