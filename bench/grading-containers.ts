/**
 * The same predictions graded in containers by the official harnesses and by Longhaul; every difference is printed, and fails.
 *
 *   npm run bench:grading-containers -- [--harness swebench-4.1]… [--tasks 12] [--patches gold,crlf,…] [--workers 2] [--json]
 *
 * Harnesses: swebench-4.1 and swebench-5 (PyPI packages 4.1.0 and 5.0.2, installed into the user cache), fork-4.0.3 and
 * rebench-v2 (checkouts that LONGHAUL_FORK_SOURCE and LONGHAUL_REBENCH_V2_SOURCE name; left out, and said to be, without them).
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { GradingProfile } from '../src/contracts/tasks.types.ts'
import { RUN_PROFILES } from '../src/grading/profiles/run-profiles.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { compareContainers } from '../test/support/grading-oracle/compare-containers.ts'
import { compareV2 } from '../test/support/grading-oracle/compare-v2.ts'
import { SOURCE_VARIABLES } from '../test/support/grading-oracle/oracle.ts'
import { buildLayoutImages, layoutTasks, removeLayoutImages } from '../test/support/layouts/layout-tasks.ts'
import { PATCH_KINDS, type PatchKind } from '../test/support/layouts/patches.ts'
import { findEngine } from './support/find-engine.ts'
import { hashOf } from './support/folder-hash.ts'
import { versions } from './support/versions.ts'

const HARNESSES = Object.keys(RUN_PROFILES) as GradingProfile[]

const { values } = parseArgs({
  options: {
    harness: { type: 'string', multiple: true },
    tasks: { type: 'string', default: '100' },
    patches: { type: 'string', default: PATCH_KINDS.join(',') },
    workers: { type: 'string', default: '2' },
    json: { type: 'boolean', default: false },
  },
})

const kinds = values.patches.split(',') as PatchKind[]
const unknown = kinds.filter((kind) => !PATCH_KINDS.includes(kind))
if (unknown.length > 0) throw new Error(`Expected --patches of ${PATCH_KINDS.join(', ')}, got ${unknown.join(', ')}`)
const { engine, stop } = await findEngine('bench-grading-containers')
try {
  const all = layoutTasks({ series: process.pid, layouts: ['conda', 'plain'] })
  const rows: object[] = []
  for (const harness of HARNESSES.filter((name) => values.harness?.includes(name) ?? true)) {
    if (isMissing(harness)) continue
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
      if (differences.length > 0) process.exitCode = 1
      const { upstream } = RUN_PROFILES[harness]
      rows.push({ harness, upstream, tasks: tasks.length, predictions, differences: differences.length, outcomes })
    } finally {
      await removeLayoutImages({ engine, tasks })
      await rm(folder, { recursive: true, force: true })
    }
  }
  const { node, kernel } = versions()
  const result = {
    bench: 'grading-containers',
    date: new Date().toISOString(),
    node,
    kernel,
    engine: engine.version,
    patches: kinds,
    oracleHash: await hashOf(join(import.meta.dirname, '../test/support/grading-oracle')),
    profilesHash: await hashOf(join(import.meta.dirname, '../src/grading/profiles')),
    rows,
  }
  console.log(JSON.stringify(result, null, values.json ? 2 : 0))
} finally {
  await stop()
}

function isMissing(harness: GradingProfile): boolean {
  if (harness !== 'fork-4.0.3' && harness !== 'rebench-v2') return false
  const variable = SOURCE_VARIABLES[harness]
  if ((process.env[variable] ?? '') !== '') return false
  console.error(`${harness}: left out, ${variable} names no checkout`)
  return true
}
