/** `schedule create --action`, from the command line to the workflow that a real server starts. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useEnvironment } from '../../../test/support/environment.ts'
import { longhaul } from '../../../test/support/command-line.ts'
import { eventually } from '../../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../../test/support/own-namespace.ts'
import type { LonghaulConnection } from '../../client/index.ts'

useEnvironment({ after })
let connection: LonghaulConnection | null = null

before(async () => {
  if (needsServer !== false) return
  connection = await connectToOwnNamespace('schedule-test')
  process.env['LONGHAUL_NAMESPACE'] = connection.namespace
})
after(async () => {
  await connection?.close()
})

for (const [action, type, prefix] of [
  ['train', 'trainAgent', 'train'],
  ['evaluate', 'evaluate', 'eval'],
] as const) {
  test(`schedule create --action ${action}: it says so, and what it starts is a ${type}`, {
    skip: needsServer,
  }, async () => {
    const id = `of-${action}`
    const created = await longhaul('schedule', 'create', id, '--recipe', 'mini', '--action', action)
    assert.deepEqual([created.exitCode, created.stderr], [0, ''])
    assert.match(created.stdout, new RegExp(`^created ${id}: ${action} mini, 0 2 \\* \\* \\* UTC`))
    assert.equal((await longhaul('schedule', 'trigger', id)).exitCode, 0)
    const handle = connection?.client.schedule.getHandle(id)
    const workflowId = await eventually(async () => {
      const { recentActions = [] } = (await handle?.describe())?.info ?? {}
      return recentActions.at(-1)?.action.workflow.workflowId ?? assert.fail('not started yet')
    })
    assert.match(workflowId, new RegExp(`^${prefix}/${id}-`))
    assert.equal((await connection?.client.workflow.getHandle(workflowId).describe())?.type, type)
  })
}
