/**
 * Is anything graded twice if the sandbox worker dies during a gate? The scenario of `test/integration/gate-kill.test.ts` with 32
 * tasks of three layouts and more kills.
 *
 *   npm run bench:gate-kill -- [--kills 3] [--repeats 1] [--series 1] [--json] [--out bench/results/gate-kill.json]
 *
 * Exit 1 on any violation, 2 if nothing was compared.
 */
import { playGateKill } from '../test/support/gate-kill/play-gate-kill.ts'
import { benchArguments } from './support/arguments.ts'
import { playOnLayouts } from './support/layout-bench.ts'
import { wholeNumbers } from './support/whole-numbers.ts'

const { values } = benchArguments({
  options: {
    kills: { type: 'string', default: '3' },
    repeats: { type: 'string', default: '1' },
    series: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const { json, out, ...numbers } = values
const { kills, repeats, series } = wholeNumbers(numbers)

await playOnLayouts({
  bench: 'gate-kill',
  series,
  json,
  out,
  play: ({ world, tasks }) =>
    playGateKill({ world, tasks, refused: {}, repeats, kills, limitMs: 40 * 60_000, say: console.error }),
})
