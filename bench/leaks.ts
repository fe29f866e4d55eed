/**
 * Does anything leak when sandbox workers are killed? The scenario of `test/integration/leaks.test.ts` with more kills.
 *
 *   npm run bench:leaks -- [--kills 100] [--seed 1] [--lease 15] [--json] [--out bench/results/leaks.json]
 *
 * Exit 1 when something was left behind: a container, network, volume, process or file descriptor.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { withLeakStack } from '../test/support/leaks/leak-stack.ts'
import { playLeaks } from '../test/support/leaks/play-leaks.ts'
import { versions } from './support/versions.ts'

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '100' },
    seed: { type: 'string', default: '1' },
    lease: { type: 'string', default: '15' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const [kills, seed, leaseS] = [values.kills, values.seed, values.lease].map(Number) as [number, number, number]
if (![kills, seed, leaseS].every((value) => Number.isInteger(value) && value > 0)) {
  console.error('Expected --kills, --seed and --lease to be whole numbers above 0')
  process.exit(1)
}

const interrupt = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupt.abort(new Error(signal)))

const home = mkdtempSync(join(tmpdir(), 'longhaul-leaks-'))
try {
  const { signal } = interrupt
  const report = await withLeakStack({ name: `bench-leaks-${process.pid}`, home, signal }, (world) =>
    playLeaks({ world, kills, seed, leaseS, quietEpisodes: 30, say: console.error, signal }),
  )
  const text = `${JSON.stringify({ bench: 'leaks', date: new Date().toISOString(), ...versions(), ...report }, null, 2)}\n`
  if (values.out !== undefined) writeFileSync(values.out, text)
  if (values.json) process.stdout.write(text)
  else console.log(`${report.kills} kills, ${report.containersSeen} containers, ${report.leaks.length} leaks`)
  process.exitCode = report.leaks.length > 0 ? 1 : 0
} finally {
  rmSync(home, { recursive: true, force: true })
}
