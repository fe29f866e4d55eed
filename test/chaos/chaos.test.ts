/** A short part of `npm run chaos`: one run for each family of faults, on a stack of its own that may be hurt. */
import { after, before, test } from 'node:test'
import type { Cell } from '../support/chaos/cells.ts'
import { type ChaosStack, needsChaos, startChaosStack } from '../support/chaos/chaos-stack.ts'
import type { QuietRuns } from '../support/chaos/play-seed.ts'
import { cell, playStory } from '../support/chaos/play-story.ts'

let stack: ChaosStack
const quiet: QuietRuns = new Map()

before(async () => {
  if (needsChaos === false) stack = await startChaosStack({ training: false, say: console.error })
})

after(() => stack?.close())

const RUNS: readonly [story: string, cells: Cell[]][] = [
  [
    'the sandbox worker dies between execution and record, then the control worker and another role at once',
    [cell('kill-sandbox', 'executed'), cell('kill-two', 'recorded')],
  ],
  [
    'the server goes away with an action recorded and not executed, then the artifact disk is full',
    [cell('temporal-restart', 'recorded'), cell('disk-full', 'executed')],
  ],
  [
    'the container dies while its command runs, then one of two policy servers answers with half a body, then it is gone',
    [cell('container-kill', 'executing'), cell('policy-half-body', 'sampling'), cell('kill-engine', 'sampled')],
  ],
  [
    'a worker stands still until another has taken its turn, and wakes up in the middle of it',
    [cell('late-waker', 'executed')],
  ],
  ['a host with its engine and containers vanishes for good', [cell('host-loss', 'executed')]],
  ['a record is torn: its episode is lost without a reward and replaced', [cell('torn-record', 'executed')]],
  ['the run is cancelled twice while a command runs', [cell('cancel-twice', 'executing')]],
  [
    'all workflows of a run are terminated and it is started again, then it is cancelled and started again',
    [cell('terminate-all', 'executed'), cell('cancel-restart:root', 'executing')],
  ],
  [
    'all workflows of a run are terminated as a rollout hands its groups over to a part, and in the run that is started again a part is reset',
    [cell('terminate-all', 'parting'), cell('reset:part', 'parting')],
  ],
  [
    "the server's database is lost with a turn executed and not recorded, and in the run that is started again a group is reset",
    [cell('database-lost', 'executed'), cell('reset:group', 'capturing')],
  ],
]

for (const [story, cells] of RUNS) {
  const title = `${story}: the records equal those of the run without faults, as far as the fault allows`
  test(title, { skip: needsChaos }, (t) => playStory(t, { stack, quiet, cells }))
}
