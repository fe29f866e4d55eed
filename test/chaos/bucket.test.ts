/** A short part of `npm run chaos -- --store s3`: the records of a run lie in a bucket of a real server, which goes wrong. */
import { after, before, test } from 'node:test'
import { findS3Server } from '../support/artifacts/s3-server.ts'
import type { Cell } from '../support/chaos/cells.ts'
import { type ChaosStack, needsChaos, startChaosStack } from '../support/chaos/chaos-stack.ts'
import type { QuietRuns } from '../support/chaos/play-seed.ts'
import { cell, playStory } from '../support/chaos/play-story.ts'

const found = needsChaos === false ? await findS3Server() : { reason: needsChaos }
const skip = 'reason' in found ? found.reason : false

let stack: ChaosStack
const quiet: QuietRuns = new Map()

before(async () => {
  if (skip === false) stack = await startChaosStack({ training: false, store: 's3', say: console.error })
})

after(() => stack?.close())

const RUNS: readonly [story: string, cells: Cell[]][] = [
  [
    'the bucket loses answers to writes after an action is recorded, then is away after a turn was executed',
    [cell('store-lost-answer', 'recorded'), cell('store-gone', 'executed')],
  ],
  [
    'the bucket returns stale listings during a placement, then truncated answers during a capture',
    [cell('store-stale-listing', 'placing'), cell('store-half-body', 'capturing')],
  ],
]

for (const [story, cells] of RUNS) {
  test(`${story}: the records equal those of the run without faults`, { skip }, (t) =>
    playStory(t, { stack, quiet, cells }),
  )
}
