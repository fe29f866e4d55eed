/** A worker dies amid a gate: `npm run bench:gate-kill` plays it with thirty tasks of three layouts. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { listSandboxes } from '../../src/adapters/docker/container/list-sandboxes.ts'
import { cancelRun, startGate } from '../../src/client/index.ts'
import { playGateKill } from '../support/gate-kill/play-gate-kill.ts'
import { layoutTasks, removeLayoutImages } from '../support/layouts/layout-tasks.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { HANG_MS } from '../support/hang.ts'

let world: PipelineWorld
const tasks = layoutTasks({ series: process.pid, layouts: ['synthetic'], perLayout: 3 })
/** Its image is nowhere: the loopback's first port serves no registry. */
const imageless = layoutTasks({ series: process.pid, layouts: ['conda'], perLayout: 3 }).slice(2)
for (const { row } of imageless) row['docker_image'] = `127.0.0.1:1/${String(row['instance_id'])}:latest`

before(async () => {
  if (needsStack === false) world = await attachWorld()
})

after(async () => {
  if (needsStack === false) await removeLayoutImages({ engine: world.engine, tasks })
  await world?.close()
})

test('a gate resumes after its sandbox worker is killed, grades nothing twice and names a task without an image', {
  skip: needsStack,
}, async (t) => {
  const report = await playGateKill({
    world,
    tasks: [...tasks, ...imageless],
    refused: Object.fromEntries(imageless.map(({ task }) => [task.taskId, 'could-not-gate' as const])),
    repeats: 1,
    kills: 1,
    limitMs: HANG_MS,
    say: console.error,
  })
  const { violations, ...facts } = report
  t.diagnostic(JSON.stringify(facts))
  assert.deepEqual(violations, [])
})

test('a cancelled gate ends as cancelled and leaves no grading container', {
  skip: needsStack,
}, async () => {
  const { connection, engine } = world
  const run = `gate-cancel-${process.pid}`
  const data = { heldOut: { kind: 'synthetic', family: 'one-wrong-line', seed: process.pid, split: 'train', count: 4 } }
  const handle = await startGate({ connection, recipe: 'mini', overrides: { data }, run })
  while ((await listSandboxes({ engine, run })).length === 0) await sleep(100)
  await cancelRun(handle)
  assert.deepEqual(await handle.outcome(), { status: 'cancelled' })
  assert.deepEqual(await listSandboxes({ engine, run }), [])
})
