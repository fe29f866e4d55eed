/**
 * How often publishing refuses lying and honest servers: each server of the table with many pairs of tiny policies, which differ as
 * before and after an optimizer step.
 *
 *   npm run bench:lying-servers -- [--pairs 3] [--honest 30] [--out bench/results/lying-servers.json]
 *
 * Exit 1 if a lie passed or an honest server was refused, 2 if nothing was compared. Lies that may be below the tolerance for bf16
 * are counted separately.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { findOrMakePython } from '../src/stack/setup/set-up.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { interruption } from './support/interruption.ts'
import { versions } from './support/versions.ts'

const { values } = benchArguments({
  options: {
    pairs: { type: 'string', default: '3' },
    honest: { type: 'string', default: '30' },
    out: { type: 'string' },
  },
})
endWith2OnError()
const [pairs, honest] = [Number(values.pairs), Number(values.honest)]
if (!(pairs > 0 && honest > 0)) refuseArguments('Expected --pairs and --honest to be above 0')
process.env['LONGHAUL_PYTHON'] = await findOrMakePython()
// Models this small gain nothing from a second thread, and wait for it if other work uses the cores.
process.env['OMP_NUM_THREADS'] ??= '1'
// The module reads both variables when it loads.
const { SERVERS, startLyingServers } = await import('../test/support/lying-servers/lies.ts')

const root = await mkdtemp(join(tmpdir(), 'longhaul-lies-'))
const servers = await startLyingServers({ root, pairs: Math.max(pairs, honest), signal: interruption() })
const rows: {
  server: string
  dtype: string
  expected: string
  checks: number
  canary: number
  window: number
  selfCheck: number
  passed: number
}[] = []
try {
  for (const server of SERVERS) {
    const counts = { canary: 0, window: 0, 'self-check': 0, passed: 0 }
    const checks = server.caughtBy === null ? honest : pairs
    for (let seed = 0; seed < checks; seed++) counts[(await servers.check(server, seed)) ?? 'passed'] += 1
    const { name, dtype, caughtBy, mayPass } = server
    const { canary, window, 'self-check': selfCheck, passed } = counts
    const expected = caughtBy === null ? 'passes' : mayPass ? 'may pass' : 'is refused'
    rows.push({ server: name, dtype, expected, checks, canary, window, selfCheck, passed })
    console.log(JSON.stringify(rows.at(-1)))
  }
} finally {
  await servers.stop()
  await rm(root, { recursive: true, force: true })
}
const honestRows = rows.filter(({ expected }) => expected === 'passes')
const lies = rows.filter(({ expected }) => expected === 'is refused')
const small = rows.filter(({ expected }) => expected === 'may pass')
const sum = (list: typeof rows, of: (row: (typeof rows)[number]) => number): number =>
  list.reduce((all, row) => all + of(row), 0)
const falseAlarms = sum(honestRows, ({ canary, window, selfCheck }) => canary + window + selfCheck)
const missed = sum(lies, ({ passed }) => passed)
const honestChecks = sum(honestRows, ({ checks }) => checks)
const report = {
  bench: 'lying-servers',
  date: new Date().toISOString(),
  ...versions(),
  load: loadavg()[1],
  lies: { checks: sum(lies, ({ checks }) => checks), missed },
  belowBf16: { checks: sum(small, ({ checks }) => checks), missed: sum(small, ({ passed }) => passed) },
  // If no refusal was seen, the rate is below 3 / n with 95 % confidence.
  honest: {
    checks: honestChecks,
    refused: falseAlarms,
    rateBelow: falseAlarms === 0 ? Math.round((3 / honestChecks) * 1000) / 1000 : null,
  },
  servers: rows,
}
if (values.out !== undefined) await writeFile(values.out, `${JSON.stringify(report, null, 1)}\n`)
console.log(
  `${missed} of ${report.lies.checks} lies passed, ${falseAlarms} of ${honestChecks} honest servers were refused`,
)
process.exitCode = conclude({
  compared: { lies: report.lies.checks, honest: honestChecks },
  violations: missed + falseAlarms,
})
