/**
 * The cost of the audit of a grading: the reference solution of the same tasks, graded with and without it, alternately.
 *
 *   npm run bench:audit -- [--rounds 10] [--tasks 3] [--json] [--out bench/results/audit.json]
 *
 * A grading lasts from the request to the removed container. The ratio is of the means; its interval is a bootstrap over the pairs
 * (2,000 draws, seed 1). Exit 1 if a solution was not confirmed, 2 if nothing was compared.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { runGrading } from '../src/activities/grading/run-grading.ts'
import { createDirectoryStore } from '../src/adapters/artifacts/directory-store.ts'
import { createDockerSandboxHost } from '../src/adapters/docker/sandbox/sandbox-host.ts'
import type { AuditRun } from '../src/contracts/audit.types.ts'
import { testCommandOf } from '../src/grading/audit/test-command.ts'
import { stackPaths } from '../src/stack/paths.ts'
import { LIMITS, never } from '../test/integration/sandbox-fixture.ts'
import {
  buildLayoutImages,
  type Layout,
  type LayoutTask,
  layoutTasks,
  removeLayoutImages,
} from '../test/support/layouts/layout-tasks.ts'
import { benchArguments } from './support/arguments.ts'
import { conclude, endWith2OnError } from './support/conclude.ts'
import { findEngine } from './support/find-engine.ts'
import { versions } from './support/versions.ts'

interface Pair {
  layout: Layout
  task: string
  withMs: number
  withoutMs: number
  auditMs: number
}

endWith2OnError()
const { values } = benchArguments({
  options: {
    rounds: { type: 'string', default: '10' },
    tasks: { type: 'string', default: '3' },
    json: { type: 'boolean', default: false },
    out: { type: 'string' },
  },
})
const { engine, stop } = await findEngine('bench-audit')
const root = mkdtempSync(join(tmpdir(), 'longhaul-bench-'))
/** An audit that costs nothing. */
const NOTHING_READ: AuditRun = {
  kind: 'read',
  canonicalPatch: Buffer.alloc(0),
  result: Buffer.alloc(0),
  errors: '',
  wallMs: 0,
}

const host = createDockerSandboxHost({ engine, hostId: 'bench-host', hostQueue: 'sandbox.bench' })
const audited = layoutTasks({ series: process.pid }).filter(({ task }) => testCommandOf(task) !== null)
const tasks = (['synthetic', 'conda', 'plain'] as const).flatMap((layout) =>
  audited.filter((task) => task.layout === layout).slice(0, Number(values.tasks)),
)
try {
  await buildLayoutImages({ engine, cacheDir: join(stackPaths().cacheDir, 'images'), tasks })
  const pairs: Pair[] = []
  const violations: string[] = []
  for (const one of tasks) await grade(one, true)
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const one of tasks) {
      const order = round % 2 === 0 ? [true, false] : [false, true]
      const [first, second] = [await grade(one, order[0] ?? true), await grade(one, order[1] ?? false)]
      const [withAudit, without] = order[0] === true ? [first, second] : [second, first]
      if (withAudit.outcome !== 'agrees') violations.push(`${one.task.taskId}: ${withAudit.outcome}`)
      const { ms: withMs, auditMs } = withAudit
      pairs.push({ layout: one.layout, task: one.task.taskId, withMs, withoutMs: without.ms, auditMs })
    }
  }
  for (const violation of violations) console.error(violation)
  const rows = (['all', 'synthetic', 'conda', 'plain'] as const).map((layout) => {
    const chosen = pairs.filter((pair) => layout === 'all' || pair.layout === layout)
    return { layout, pairs: chosen.length, ...summary(chosen) }
  })
  const { node, kernel, cores, provenance } = versions()
  const date = new Date().toISOString()
  const result = {
    bench: 'audit',
    date,
    node,
    kernel,
    cores,
    provenance,
    engine: engine.version,
    tasks: tasks.length,
    rows,
  }
  const text = `${JSON.stringify(result, null, 2)}\n`
  if (values.out !== undefined) writeFileSync(values.out, text)
  if (values.json) process.stdout.write(text)
  else
    for (const row of rows)
      console.log(
        `${row.layout}: ${row.withMs} ms with, ${row.withoutMs} ms without, ratio ${row.ratio} (${row.interval.join(' to ')})`,
      )
  process.exitCode = conclude({ compared: { pairs: pairs.length }, violations: violations.length })
} finally {
  host.dispose()
  await removeLayoutImages({ engine, tasks })
  rmSync(root, { recursive: true })
  await stop()
}

async function grade(
  { task }: LayoutTask,
  hasAudit: boolean,
): Promise<{ ms: number; auditMs: number; outcome: string }> {
  const started = performance.now()
  const { audit } = await runGrading(
    {
      store: createDirectoryStore({ root }),
      sandbox: hasAudit ? host : { ...host, audit: async () => NOTHING_READ },
      ensureImage: async () => undefined,
    },
    {
      run: 'bench-audit',
      episode: `bench/${task.taskId}`,
      owner: 'bench',
      role: 'grader',
      limits: LIMITS,
      patch: Buffer.from(task.goldPatch),
      isCaptured: false,
      task,
      logKey: `logs/${task.taskId}.txt`,
    },
    never,
  )
  return { ms: performance.now() - started, auditMs: audit?.auditMs ?? 0, outcome: audit?.outcome ?? 'none' }
}

function summary(pairs: readonly Pair[]) {
  const random = seeded(1)
  const ratios = Array.from({ length: 2000 }, () =>
    ratioOf(pairs.map(() => pairs[Math.floor(random() * pairs.length)] as Pair)),
  ).toSorted((a, b) => a - b)
  const at = (share: number): number => round(ratios[Math.floor(share * (ratios.length - 1))] ?? Number.NaN)
  return {
    withMs: Math.round(mean(pairs.map(({ withMs }) => withMs))),
    withoutMs: Math.round(mean(pairs.map(({ withoutMs }) => withoutMs))),
    auditMs: Math.round(mean(pairs.map(({ auditMs }) => auditMs))),
    ratio: round(ratioOf(pairs)),
    interval: [at(0.025), at(0.975)] as const,
  }
}

function ratioOf(pairs: readonly Pair[]): number {
  return mean(pairs.map(({ withMs }) => withMs)) / mean(pairs.map(({ withoutMs }) => withoutMs))
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / numbers.length
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}

/** Mulberry32. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
