/**
 * Is anything graded twice when the sandbox worker dies amid a gate? The scenario of `test/integration/gate-kill.test.ts` with 32
 * tasks of three layouts and more kills.
 *
 *   npm run bench:gate-kill -- [--kills 3] [--repeats 1] [--series 1] [--json] [--out bench/results/gate-kill.json]
 *
 * Exit 1 when something was violated.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { stackPaths } from '../src/stack/paths.ts'
import { startStack } from '../src/stack/start-stack.ts'
import { playGateKill } from '../test/support/gate-kill/play-gate-kill.ts'
import { buildLayoutImages, layoutTasks, removeLayoutImages } from '../test/support/layouts/layout-tasks.ts'
import { worldOf } from '../test/support/pipeline-world.ts'
import { versions } from './support/versions.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '3' },
    repeats: { type: 'string', default: '1' },
    series: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const [kills, repeats, series] = [values.kills, values.repeats, values.series].map(Number) as [number, number, number]
if (![kills, repeats, series].every((value) => Number.isInteger(value) && value > 0)) {
  console.error('Expected --kills, --repeats and --series to be whole numbers above 0')
  process.exit(1)
}

const interrupt = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt.abort(new Error(signal)))

const home = mkdtempSync(join(tmpdir(), 'longhaul-gate-kill-'))
const { cacheDir } = stackPaths()
try {
  const stack = await startStack({ name: `gate-kill-${process.pid}`, home, quiet: true, signal: interrupt.signal })
  try {
    const world = await worldOf(stack)
    const tasks = layoutTasks({ series })
    try {
      await buildLayoutImages({ engine: world.engine, cacheDir: join(cacheDir, 'images'), tasks })
      const report = await playGateKill({
        world,
        tasks,
        refused: {},
        repeats,
        kills,
        limitMs: 40 * 60_000,
        say: console.error,
      })
      const facts = { bench: 'gate-kill', date: new Date().toISOString(), ...versions(), ...report }
      const text = `${JSON.stringify(facts, null, 2)}\n`
      if (values.out !== undefined) writeFileSync(values.out, text)
      if (values.json) process.stdout.write(text)
      else console.log(`${report.tasks} tasks, ${report.kills.length} kills: ${report.violations.length} violations`)
      process.exitCode = report.violations.length > 0 ? 1 : 0
    } finally {
      await removeLayoutImages({ engine: world.engine, tasks })
      await world.close()
    }
  } finally {
    await stack.stop()
  }
} finally {
  rmSync(home, { recursive: true, force: true })
}
