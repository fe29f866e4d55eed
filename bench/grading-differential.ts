/**
 * Longhaul's grading against the official harnesses on seeded damaged logs; every difference is printed, and fails.
 *
 *   npm run bench:grading-differential -- [--cases 20000] [--seed 1] [--kind swebench-4.1]… [--json]
 *
 * Kinds: swebench-4.1 and swebench-5 (PyPI packages 4.1.0 and 5.0.2, installed into the user cache), fork-rules (4.1.0
 * without the fork's differences), fork-4.0.3 and rebench-v2 (checkouts that LONGHAUL_FORK_SOURCE and
 * LONGHAUL_REBENCH_V2_SOURCE name; left out, and said to be, without them).
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { compareMany } from '../test/support/grading-oracle/compare-many.ts'
import { type OracleKind, SOURCE_VARIABLES } from '../test/support/grading-oracle/oracle.ts'
import { hashOf } from './support/folder-hash.ts'
import { versions } from './support/versions.ts'

/** What each kind runs. */
const UPSTREAMS: Record<OracleKind, string> = {
  'swebench-4.1': 'PyPI swebench 4.1.0',
  'swebench-5': 'PyPI swebench 5.0.2',
  'fork-rules': 'PyPI swebench 4.1.0, without reading the whole log a second time',
  'fork-4.0.3': 'SWE-rebench/SWE-bench-fork 39316f79cd51c144fb0c62c157ef4739e7653577',
  'rebench-v2': 'SWE-rebench/SWE-rebench-V2 c71902a8cf8d2b725f63d51f199f4d3e56f68d2d',
}

/** The files of those commits that decide a grade, and the SHA-256 over their bytes: another checkout is refused. */
const SOURCES = {
  'fork-4.0.3': {
    files: ['swebench/harness/grading.py', 'swebench/harness/log_parsers/python.py'],
    sha256: 'a5e77e2be51d5eb4fb3f0718940dacf0e90c42e098d3c87a0d1567b832d3e921',
  },
  'rebench-v2': {
    files: ['lib/agent/log_parsers.py', 'scripts/eval.py'],
    sha256: '14bcc5b3c08b39dc7535c20a7d1dc75507bcc80c535321c589aa0a97f562bba5',
  },
} as const
const KINDS = Object.keys(UPSTREAMS) as OracleKind[]
const ORACLE_FOLDER = join(import.meta.dirname, '../test/support/grading-oracle')
const GRADING_FOLDER = join(import.meta.dirname, '../src/grading')

const { values } = parseArgs({
  options: {
    cases: { type: 'string', default: '20000' },
    seed: { type: 'string', default: '1' },
    kind: { type: 'string', multiple: true },
    json: { type: 'boolean', default: false },
  },
})

const rows: object[] = []
for (const kind of KINDS.filter((name) => values.kind?.includes(name) ?? true)) {
  if (kind === 'fork-4.0.3' || kind === 'rebench-v2') {
    const folder = process.env[SOURCE_VARIABLES[kind]] ?? ''
    if (folder === '') {
      console.error(`${kind}: left out, ${SOURCE_VARIABLES[kind]} names no checkout`)
      continue
    }
    await requireCommit(kind, folder)
  }
  const { cases, outcomes, differences } = await compareMany({
    kind,
    seed: Number(values.seed),
    cases: Number(values.cases),
  })
  for (const difference of differences.slice(0, 20)) console.error(JSON.stringify(difference))
  console.error(`${kind}: ${cases} cases, ${differences.length} differences`)
  if (differences.length > 0) process.exitCode = 1
  rows.push({ kind, upstream: UPSTREAMS[kind], cases, differences: differences.length, outcomes })
}
const { node, kernel } = versions()
const result = {
  bench: 'grading-differential',
  date: new Date().toISOString(),
  node,
  kernel,
  seed: Number(values.seed),
  oracleHash: await hashOf(ORACLE_FOLDER),
  gradingHash: await hashOf(GRADING_FOLDER),
  rows,
}
console.log(JSON.stringify(result, null, values.json ? 2 : 0))

async function requireCommit(kind: keyof typeof SOURCES, folder: string): Promise<void> {
  const hash = createHash('sha256')
  for (const file of SOURCES[kind].files) hash.update(await readFile(join(folder, file)))
  if (hash.digest('hex') !== SOURCES[kind].sha256) throw new Error(`Expected ${folder} to hold ${UPSTREAMS[kind]}`)
}
