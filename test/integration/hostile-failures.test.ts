/**
 * What a server or a row says is quoted in the message of a failure. Half of a character there (`\ud800` in JSON, or an emoji that the cut
 * of a quote splits) is no valid text for the SDK's core, which ended the whole worker with all episodes that it was playing.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import type { LonghaulConnection } from '../../src/client/index.ts'
import { FAILING_QUEUE, type FailInput } from '../support/hostile/failing-worker.ts'
import { connectToOwnNamespace, needsServer } from '../support/own-namespace.ts'

const PLACES: [where: FailInput['where'], says: string][] = [
  ['message', 'its message'],
  ['cause', 'the message of its cause'],
  ['class', 'the name of its class'],
]

describe('failures that quote half of a character', { skip: needsServer }, () => {
  let connection: LonghaulConnection
  let worker: ChildProcess
  let ended: Promise<string>

  before(async () => {
    connection = await connectToOwnNamespace('hostile-failures')
    const program = fileURLToPath(new URL('../support/hostile/failing-worker.ts', import.meta.url))
    worker = fork(program, [connection.address, connection.namespace])
    ended = once(worker, 'exit').then(([code, signal]) => `the worker ended: ${code ?? signal}`)
    assert.equal(await Promise.race([once(worker, 'message').then(([said]) => said), ended]), 'polling')
  })

  after(async () => {
    worker?.kill('SIGKILL')
    await connection?.close()
  })

  for (const [where, says] of PLACES) {
    test(`a failure with half of a character in ${says} reaches the run, and the worker goes on`, async () => {
      const handle = await connection.client.workflow.start('callFail', {
        taskQueue: FAILING_QUEUE,
        workflowId: `fails-${where}`,
        args: [{ where } satisfies FailInput],
        workflowExecutionTimeout: '1 minute',
      })
      assert.equal(await Promise.race([handle.result(), ended]), 'Unexpected')
    })
  }
})
