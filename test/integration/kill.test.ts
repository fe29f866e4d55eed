/** Processes die, nothing is lost: `npm run bench:kill` repeats this with other moments. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import { playKillScenario } from '../support/kill/kill-scenario.ts'

let world: PipelineWorld

before(async () => {
  if (needsStack === false) world = await attachWorld()
})

after(() => world?.close())

test('a run survives killed sandbox and trainer workers and repeats no counted episode, step or turn', {
  skip: needsStack,
}, async (t) => {
  const report = await playKillScenario({ world, seed: 1, say: console.error })
  const { violations, ...facts } = report
  t.diagnostic(JSON.stringify(facts))
  assert.deepEqual(violations, [])
})
