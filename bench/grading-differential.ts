/**
 * Longhaul's grading against the official harnesses on seeded damaged logs; every difference is printed and fails the bench.
 *
 *   npm run bench:grading-differential -- [--cases 20000] [--seed 1] [--kind swebench-4.1]… [--json]
 *     [--out bench/results/grading-differential.json]
 *
 * Kinds: swebench-4.1 and swebench-5 (PyPI packages 4.1.0 and 5.0.2, installed into the user cache), fork-rules (4.1.0 without the
 * fork's differences), fork-4.0.3 and rebench-v2 (checkouts named by LONGHAUL_FORK_SOURCE and LONGHAUL_REBENCH_V2_SOURCE; without
 * them they are skipped with a note). The code of each harness is hashed: another version is refused, and the hash is part of the
 * result. Exit 1 on any difference, 2 if nothing was compared.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { compareMany } from '../test/support/grading-oracle/compare-many.ts'
import { locateHarness, missingSource, type OracleKind } from '../test/support/grading-oracle/oracle.ts'
import { benchArguments, refuseArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { hashOf } from './support/folder-hash.ts'
import { versions } from './support/versions.ts'

const KINDS: readonly OracleKind[] = ['swebench-4.1', 'swebench-5', 'fork-rules', 'fork-4.0.3', 'rebench-v2']
const ORACLE_FOLDER = join(import.meta.dirname, '../test/support/grading-oracle')
const GRADING_FOLDER = join(import.meta.dirname, '../src/grading')

endWith2OnError()
const { values } = benchArguments({
  options: {
    cases: { type: 'string', default: '20000' },
    seed: { type: 'string', default: '1' },
    kind: { type: 'string', multiple: true },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})

const unknown = (values.kind ?? []).filter((name) => !KINDS.some((kind) => kind === name))
if (unknown.length > 0) refuseArguments(`Expected --kind of ${KINDS.join(', ')}, got ${unknown.join(', ')}`)
interface Row {
  kind: OracleKind
  upstream: string
  /** Hash of the harness's code. */
  harnessSha256: string
  cases: number
  differences: number
  outcomes: Record<string, number>
}

const rows: Row[] = []
for (const kind of KINDS.filter((name) => values.kind?.includes(name) ?? true)) {
  const missing = missingSource(kind)
  if (missing !== null && values.kind !== undefined) throw new Error(`${kind}: ${missing}`)
  if (missing !== null) {
    console.error(`${kind}: left out, ${missing}`)
    continue
  }
  const { upstream, sha256: harnessSha256 } = await locateHarness(kind)
  const { cases, outcomes, differences } = await compareMany({
    kind,
    seed: Number(values.seed),
    cases: Number(values.cases),
  })
  for (const difference of differences.slice(0, 20)) console.error(JSON.stringify(difference))
  console.error(`${kind}: ${cases} cases, ${differences.length} differences`)
  rows.push({ kind, upstream, harnessSha256, cases, differences: differences.length, outcomes })
}
const { node, kernel, provenance } = versions()
const result = {
  bench: 'grading-differential',
  date: new Date().toISOString(),
  node,
  kernel,
  provenance,
  seed: Number(values.seed),
  oracleHash: await hashOf(ORACLE_FOLDER),
  gradingHash: await hashOf(GRADING_FOLDER),
  rows,
}
if (values.out !== undefined) writeFileSync(values.out, `${JSON.stringify(result, null, 2)}\n`)
console.log(JSON.stringify(result, null, values.json ? 2 : 0))
const fewest = Math.min(...rows.map(({ cases }) => cases))
process.exitCode = conclude({
  compared: { kinds: rows.length, 'cases of each': rows.length === 0 ? 0 : fewest },
  violations: rows.reduce((sum, { differences }) => sum + differences, 0),
})
