/**
 * The same predictions graded in containers by the official harnesses and by Longhaul; every difference is printed and fails the
 * bench.
 *
 *   npm run bench:grading-containers -- [--harness swebench-4.1]… [--tasks 12] [--patches gold,crlf,…] [--workers 2] [--json]
 *     [--out bench/results/grading-containers.json]
 *
 * Harnesses: swebench-4.1 and swebench-5 (PyPI packages 4.1.0 and 5.0.2, installed into the user cache), fork-4.0.3 and rebench-v2
 * (checkouts named by LONGHAUL_FORK_SOURCE and LONGHAUL_REBENCH_V2_SOURCE; without them they are skipped with a note). The code of
 * each harness is hashed: another version is refused, and the hash is part of the result. Exit 1 on any difference, 2 if nothing was
 * compared.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GradingProfile } from '../src/contracts/tasks.types.ts'
import { RUN_PROFILES } from '../src/grading/profiles/run-profiles.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { compareContainers } from '../test/support/grading-oracle/compare-containers.ts'
import { compareV2 } from '../test/support/grading-oracle/compare-v2.ts'
import { locateHarness, missingSource } from '../test/support/grading-oracle/oracle.ts'
import { buildLayoutImages, layoutTasks, removeLayoutImages } from '../test/support/layouts/layout-tasks.ts'
import { PATCH_KINDS, type PatchKind } from '../test/support/layouts/patches.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { findEngine } from './support/find-engine.ts'
import { hashOf } from './support/folder-hash.ts'
import { versions } from './support/versions.ts'

interface Row {
  harness: GradingProfile
  upstream: string
  /** Hash of the harness's code. */
  harnessSha256: string
  tasks: number
  predictions: number
  differences: number
  outcomes: Record<string, number>
}

const HARNESSES = Object.keys(RUN_PROFILES) as GradingProfile[]

endWith2OnError()
const { values } = benchArguments({
  options: {
    harness: { type: 'string', multiple: true },
    tasks: { type: 'string', default: '100' },
    patches: { type: 'string', default: PATCH_KINDS.join(',') },
    workers: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})

const strange = (values.harness ?? []).filter((name) => !HARNESSES.some((harness) => harness === name))
if (strange.length > 0) throw new Error(`Expected --harness of ${HARNESSES.join(', ')}, got ${strange.join(', ')}`)
const kinds = values.patches.split(',') as PatchKind[]
const unknown = kinds.filter((kind) => !PATCH_KINDS.includes(kind))
if (unknown.length > 0) throw new Error(`Expected --patches of ${PATCH_KINDS.join(', ')}, got ${unknown.join(', ')}`)
const { engine, stop } = await findEngine('bench-grading-containers')
try {
  const all = layoutTasks({ series: process.pid, layouts: ['conda', 'plain'] })
  const rows: Row[] = []
  for (const harness of HARNESSES.filter((name) => values.harness?.includes(name) ?? true)) {
    const missing = missingSource(harness)
    if (missing !== null && values.harness !== undefined) throw new Error(`${harness}: ${missing}`)
    if (missing !== null) {
      console.error(`${harness}: left out, ${missing}`)
      continue
    }
    const { upstream, sha256: harnessSha256 } = await locateHarness(harness)
    const tasks = all.filter(({ task }) => task.gradingProfile === harness).slice(0, Number(values.tasks))
    const folder = await mkdtemp(join(tmpdir(), 'longhaul-bench-'))
    try {
      await buildLayoutImages({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), tasks })
      const input = { engine, tasks, folder, workers: Number(values.workers) }
      const { predictions, outcomes, differences } =
        harness === 'rebench-v2'
          ? // Upstream takes no empty patch and ends no tests.
            await compareV2({ ...input, kinds: kinds.filter((kind) => kind !== 'empty' && kind !== 'slow') })
          : await compareContainers({ ...input, harness, kinds })
      for (const difference of differences) console.error(`${harness}: ${difference}`)
      console.error(`${harness}: ${predictions} predictions, ${differences.length} differences`)
      const counts = { tasks: tasks.length, predictions, differences: differences.length, outcomes }
      rows.push({ harness, upstream, harnessSha256, ...counts })
    } finally {
      await removeLayoutImages({ engine, tasks })
      await rm(folder, { recursive: true, force: true })
    }
  }
  const { node, kernel, provenance } = versions()
  const result = {
    bench: 'grading-containers',
    date: new Date().toISOString(),
    node,
    kernel,
    provenance,
    engine: engine.version,
    patches: kinds,
    oracleHash: await hashOf(join(import.meta.dirname, '../test/support/grading-oracle')),
    profilesHash: await hashOf(join(import.meta.dirname, '../src/grading/profiles')),
    rows,
  }
  if (values.out !== undefined) await writeFile(values.out, `${JSON.stringify(result, null, 2)}\n`)
  console.log(JSON.stringify(result, null, values.json ? 2 : 0))
  const fewest = Math.min(...rows.map(({ predictions }) => predictions))
  process.exitCode = conclude({
    compared: { harnesses: rows.length, 'predictions of each': rows.length === 0 ? 0 : fewest },
    violations: rows.reduce((sum, { differences }) => sum + differences, 0),
  })
} finally {
  await stop()
}
