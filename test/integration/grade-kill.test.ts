/** A worker dies amid a grading run: `npm run bench:grade-kill` plays it with thirty tasks of three layouts. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { playGradeKill } from '../support/grade-kill/play-grade-kill.ts'
import { layoutTasks, removeLayoutImages } from '../support/layouts/layout-tasks.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { HANG_MS } from '../support/hang.ts'

let world: PipelineWorld
const tasks = layoutTasks({ series: process.pid, layouts: ['synthetic'], perLayout: 7 })

before(async () => {
  if (needsStack === false) world = await attachWorld()
})

after(async () => {
  if (needsStack === false) await removeLayoutImages({ engine: world.engine, tasks })
  await world?.close()
})

test('a grading run resumes after its sandbox worker is killed and grades no patch with a verdict again', {
  skip: needsStack,
}, async (t) => {
  const recipesDir = join(import.meta.dirname, '../../recipes')
  const report = await playGradeKill({ world, tasks, kills: 1, recipesDir, limitMs: HANG_MS, say: console.error })
  const { violations, ...facts } = report
  t.diagnostic(JSON.stringify(facts))
  assert.deepEqual(violations, [])
})
