/**
 * Is anything graded twice if the sandbox worker dies during a grading run? The scenario of `test/integration/grade-kill.test.ts`
 * with 32 tasks of three layouts and more kills.
 *
 *   npm run bench:grade-kill -- [--kills 4] [--series 1] [--json] [--out bench/results/grade-kill.json]
 *
 * Exit 1 on any violation, 2 if nothing was compared.
 */
import { join } from 'node:path'
import { playGradeKill } from '../test/support/grade-kill/play-grade-kill.ts'
import { benchArguments } from './support/arguments.ts'
import { playOnLayouts } from './support/layout-bench.ts'
import { wholeNumbers } from './support/whole-numbers.ts'

const { values } = benchArguments({
  options: {
    kills: { type: 'string', default: '4' },
    series: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const { json, out, ...numbers } = values
const { kills, series } = wholeNumbers(numbers)
const recipesDir = join(import.meta.dirname, '../recipes')

await playOnLayouts({
  bench: 'grade-kill',
  series,
  json,
  out,
  play: ({ world, tasks }) =>
    playGradeKill({ world, tasks, kills, recipesDir, limitMs: 20 * 60_000, say: console.error }),
})
