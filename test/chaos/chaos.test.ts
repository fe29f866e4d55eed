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
    'the server restarts between record and execution of an action, then the artifact disk is full',
    [cell('temporal-restart', 'recorded'), cell('disk-full', 'executed')],
  ],
  [
    'the container dies during a command, then one of two policy servers sends half a body, then it is killed',
    [cell('container-kill', 'executing'), cell('policy-half-body', 'sampling'), cell('kill-engine', 'sampled')],
  ],
  [
    'a worker stalls until another one has taken over its turn, and continues during that turn',
    [cell('late-waker', 'executed')],
  ],
  ['a host disappears permanently with its engine and containers', [cell('host-loss', 'executed')]],
  ['a torn record makes its episode lost without a reward and replaced', [cell('torn-record', 'executed')]],
  ['the run is cancelled twice while a command runs', [cell('cancel-twice', 'executing')]],
  [
    'a run is restarted after a termination of all workflows, and again after a cancel',
    [cell('terminate-all', 'executed'), cell('cancel-restart:root', 'executing')],
  ],
  [
    'all workflows are terminated during a hand-over to a rollout part, and a part of the restarted run is reset',
    [cell('terminate-all', 'parting'), cell('reset:part', 'parting')],
  ],
  [
    'the record of a turn disappears while its episode is played, so the episode is replaced',
    [cell('lost-record:turn', 'executing')],
  ],
  [
    'the result of a graded episode disappears, so the run fails, and is started again',
    [cell('lost-record:result', 'executing')],
  ],
  ["the server's database is replaced by an older copy of itself", [cell('old-database', 'executing')]],
  [
    "the server's database is lost between execution and record of a turn, and a group of the restarted run is reset",
    [cell('database-lost', 'executed'), cell('reset:group', 'capturing')],
  ],
]

for (const [story, cells] of RUNS) {
  const title = `${story}: the records equal those of the run without faults, as far as the fault allows`
  test(title, { skip: needsChaos }, (t) => playStory(t, { stack, quiet, cells }))
}
