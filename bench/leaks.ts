/**
 * Does anything leak when sandbox workers are killed? The scenario of `test/integration/leaks.test.ts` with more kills.
 *
 *   npm run bench:leaks -- [--kills 100] [--seed 1] [--lease 15] [--json] [--out bench/results/leaks.json]
 *
 * Exit 1 if a container, network, volume, process or file descriptor was left behind, for good or for longer than the lease and a
 * minute; 2 if no kill hit a sandbox, or none a gate.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { withLeakStack } from '../test/support/leaks/leak-stack.ts'
import { playLeaks } from '../test/support/leaks/play-leaks.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { findEngine } from './support/find-engine.ts'
import { interruption } from './support/interruption.ts'
import { versions } from './support/versions.ts'
import { wholeNumbers } from './support/whole-numbers.ts'

endWith2OnError()
const { values } = benchArguments({
  options: {
    kills: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    lease: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const { json, out, ...numbers } = values
const { kills, seed, lease: leaseS } = wholeNumbers(numbers)

/** How much longer than its lease an orphaned resource may stay, on an otherwise idle machine. */
const GRACE_S = 60

const signal = interruption()

const { stop } = await findEngine(`bench-leaks-engine-${process.pid}`)
const home = mkdtempSync(join(tmpdir(), 'longhaul-leaks-'))
try {
  const report = await withLeakStack({ name: `bench-leaks-${process.pid}`, home, signal }, (world) =>
    playLeaks({ world, kills, seed, leaseS, quietEpisodes: 30, say: console.error, signal }),
  )
  const late = Object.entries({
    'while workers died': report.longestOverdueS,
    'after everything died': report.cleanAfterS,
  })
    .filter(([, seconds]) => seconds > leaseS + GRACE_S)
    .map(([when, seconds]) => `something stayed ${seconds} s ${when}`)
  const facts = { bench: 'leaks', date: new Date().toISOString(), ...versions(), ...report, late }
  const text = `${JSON.stringify(facts, null, 2)}\n`
  if (out !== undefined) writeFileSync(out, text)
  if (json) process.stdout.write(text)
  else {
    const seen = Object.values(report.containersSeen).reduce((sum, count) => sum + count, 0)
    console.log(`${report.kills} kills, ${seen} containers, ${report.leaks.length + late.length} leaks`)
  }
  const { agent = 0, gate = 0 } = report.hit
  const compared = {
    kills: report.kills,
    'sandboxes met by kills': agent,
    'gates met by kills': gate,
    episodes: report.descriptors.episodes,
  }
  process.exitCode = conclude({ compared, violations: report.leaks.length + late.length })
} finally {
  rmSync(home, { recursive: true, force: true })
  await stop()
}
