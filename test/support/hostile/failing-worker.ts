/**
 * A worker whose activity fails as it is told, in a process of its own: core may end the worker in a state in which neither its promise
 * settles nor its connection closes.
 *
 *   node failing-worker.ts ADDRESS NAMESPACE
 *
 * Sends `polling` to its parent before it begins.
 */
import assert from 'node:assert/strict'
import { fileURLToPath } from 'node:url'
import { NativeConnection, Worker } from '@temporalio/worker'

import { activity } from '../../../src/activities/runtime/activity-runtime.ts'
import { dataConverterOf } from '../../../src/platform/data-converter.ts'
import { buildBundleOf } from '../workflow-bundle.ts'

export const FAILING_QUEUE = 'hostile'

export interface FailInput {
  /** Where the failure holds half of a character. */
  where: keyof typeof FAILURES
}

const HALF = '\ud800'

const FAILURES = {
  message: () => new Error(`the server said ${HALF}`),
  cause: () => new Error('the answer is no JSON', { cause: new SyntaxError(`Unexpected token ${HALF}`) }),
  class: () => Object.assign(new Error('wrong'), { name: `Wrong${HALF}` }),
}

if (import.meta.main) {
  const [address, namespace] = process.argv.slice(2)
  assert.ok(address !== undefined && namespace !== undefined, 'Expected an address and a namespace')
  const worker = await Worker.create({
    connection: await NativeConnection.connect({ address }),
    namespace,
    taskQueue: FAILING_QUEUE,
    workflowBundle: await buildBundleOf(fileURLToPath(new URL('./fails.workflow.ts', import.meta.url))),
    activities: {
      fail: activity(({ where }: FailInput): Promise<never> => Promise.reject(FAILURES[where]())),
    },
    ...dataConverterOf(),
  })
  process.send?.('polling')
  await worker.run()
}
