/**
 * A short part of `npm run chaos -- --sandboxes pods`: the sandboxes of a run are pods of a real cluster, which are evicted, deleted and driven off their
 * node, and whose API server stands still. The records have to be those of containers, one by one.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type ChaosStack, needsChaos, startChaosStack } from '../support/chaos/chaos-stack.ts'
import type { Phase } from '../support/chaos/phases.ts'
import { playCells, type QuietRuns } from '../support/chaos/play-seed.ts'
import { cell, playStory, SEED } from '../support/chaos/play-story.ts'
import { findKubernetes } from '../support/kubernetes/programs.ts'

const found = needsChaos === false ? await findKubernetes() : { reason: needsChaos }

const CELLS: readonly [fault: string, phase: Phase][] = [
  ['eviction', 'executing'],
  ['pod-delete', 'recorded'],
  ['node-loss', 'executed'],
  ['api-server-frozen', 'capturing'],
]

describe('an evaluation in pods', { skip: 'reason' in found ? found.reason : false }, () => {
  let stack: ChaosStack
  const quiet: QuietRuns = new Map()

  before(async () => {
    stack = await startChaosStack({ training: false, sandboxes: 'pods', say: console.error })
  })

  after(() => stack?.close())

  test('without a fault the records equal those of containers, and the journals of its pods were read', async () => {
    const plan = { seed: SEED, kind: 'evaluation', inParts: false } as const
    const { hurt, violations } = await playCells({ stack, plan, cells: [], quiet, say: console.error })
    assert.deepEqual(violations, [])
    // The uid of a pod has dashes, the id of a container has none.
    const ofPods = stack.journals.filter(({ container, done }) => container.includes('-') && done.length > 0)
    assert.equal(ofPods.length, hurt.episodes)
  })

  for (const [fault, phase] of CELLS) {
    test(`${fault} at ${phase} takes effect, and the records equal those of containers`, (t) =>
      playStory(t, { stack, quiet, cells: [cell(fault, phase)] }))
  }
})
