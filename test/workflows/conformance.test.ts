/**
 * The workflow driver imitates a server. Here both play the same scenarios: the driver on its fake clock, a real server in real
 * time and all at once. What happened must be the same, event by event: attempts, failures, retry states, time-out types, what a
 * parent's end does to its children, how a cancel arrives, and what a workflow continues with.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { DefaultLogger, Runtime } from '@temporalio/worker'
import { playOnDriver, type Traces } from '../support/conformance/on-driver.ts'
import { playOnServer } from '../support/conformance/on-server.ts'
import { SCENARIOS } from '../support/conformance/scenarios.ts'
import { type LocalServer, startLocalServer } from '../support/local-server.ts'
import { buildBundleOf, type WorkflowBundle } from '../support/workflow-bundle.ts'

/**
 * Core resolves TRY_CANCEL of a child at once: a parent that ends there ends in the task that asks for the cancel, which the server
 * then drops. The driver resolves it in a task of its own. No workflow of the project uses TRY_CANCEL for children.
 */
const DIFFERS = ['a child is cancelled, its parent does not wait']

const WORKFLOWS = fileURLToPath(new URL('../support/conformance/workflows.ts', import.meta.url))

let server: LocalServer
let bundle: WorkflowBundle
let onServer: Record<string, Traces>

before(async () => {
  Runtime.install({ logger: new DefaultLogger('ERROR') })
  ;[server, bundle] = await Promise.all([startLocalServer(), buildBundleOf(WORKFLOWS)])
  onServer = await playOnServer(server.environment, SCENARIOS, bundle)
})

after(async () => {
  await server?.[Symbol.asyncDispose]()
})

for (const [name, scenario] of Object.entries(SCENARIOS)) {
  test(name, async () => {
    const onDriver = await playOnDriver(name, scenario, bundle)
    assert.ok((onServer[name]?.['root 1']?.length ?? 0) >= 2, 'the server recorded no events')
    if (DIFFERS.includes(name))
      assert.notDeepEqual(onDriver, onServer[name], 'driver and server agree now: remove the scenario from DIFFERS')
    else assert.deepEqual(onDriver, onServer[name])
  })
}
