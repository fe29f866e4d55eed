/**
 * Is anything lost when processes die? The scenario of `test/integration/kill.test.ts`, repeated with other moments.
 *
 *   npm run bench:kill -- [--times 20] [--first 1] [--json] [--out bench/results/kill.json]
 *
 * Every command of every episode notes that it ran, and the episode's patch is compared with its records, so a second execution shows
 * wherever it happened. One line a repetition. Exit 1 if any repetition was violated, 2 if one could not be played.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { stackPaths } from '../src/stack/paths.ts'
import { startStack } from '../test/support/start-stack.ts'
import { playKillScenario, type KillReport } from '../test/support/kill/kill-scenario.ts'
import { worldOf } from '../test/support/pipeline-world.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { versions } from './support/versions.ts'

endWith2OnError()
const { values } = benchArguments({
  options: {
    times: { type: 'string', default: '20' },
    first: { type: 'string', default: '1' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const times = Number(values.times)
const first = Number(values.first)
if (!Number.isInteger(times) || times < 1 || !Number.isInteger(first)) {
  console.error('Expected --times N with N ≥ 1 and --first SEED')
  process.exit(1)
}

const interrupted = interruption()

const stack = await startStack({
  name: 'bench-kill',
  home: join(stackPaths().dataDir, '..', '..'),
  signal: interrupted,
})
const reports: KillReport[] = []
const failures: { seed: number; message: string }[] = []
try {
  const world = await worldOf(stack)
  try {
    for (let seed = first; seed < first + times && !interrupted.aborted; seed++) {
      const report = await playKillScenario({ world, seed, say: console.error }).catch((error: unknown) => {
        failures.push({ seed, message: error instanceof Error ? error.message : String(error) })
        return null
      })
      if (report !== null) reports.push(report)
      console.error(report === null ? `seed ${seed}: FAILED ${failures.at(-1)?.message}` : line(report))
    }
  } finally {
    await world.close()
  }
} finally {
  await stack.stop()
}

const violations = reports.reduce((sum, report) => sum + report.violations.length, 0)
const summary = {
  bench: 'kill',
  date: new Date().toISOString(),
  ...versions(),
  times: reports.length,
  violations,
  failures,
  reports,
}
const text = `${JSON.stringify(summary, null, 2)}\n`
if (values.out !== undefined) writeFileSync(values.out, text)
if (values.json) process.stdout.write(text)
else console.log(`${reports.length} of ${times} played, ${violations} violations, ${failures.length} failures`)
const sum = (of: (report: KillReport) => number): number => reports.reduce((total, report) => total + of(report), 0)
const compared = {
  episodes: sum(({ episodes }) => episodes),
  'commands whose executions were counted': sum(({ commandsCounted }) => commandsCounted),
  kills: sum(({ workers, trainers }) => workers.length + trainers.length),
}
process.exitCode = failures.length > 0 || reports.length < times ? 2 : conclude({ compared, violations })

function line(report: KillReport): string {
  const {
    seed,
    wallS,
    episodes,
    turns,
    commandsCounted,
    steps,
    sampledAgain,
    met,
    trainers,
    violations: found,
  } = report
  const inside = trainers.filter(({ isInside }) => isInside).length
  const facts = `${episodes} episodes, ${turns} turns, ${commandsCounted} commands counted, ${steps} steps, ${met} episodes met by kills, ${sampledAgain} samples repeated, ${inside} trainers killed amid a job`
  const verdict = found.length === 0 ? 'ok' : `VIOLATED\n  ${found.join('\n  ')}`
  return `seed ${seed}: ${facts}, ${wallS.toFixed(0)} s: ${verdict}`
}
