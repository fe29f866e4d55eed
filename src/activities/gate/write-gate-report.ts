import type { WrittenGateReport } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GateCounts, GateReport, TaskGate } from '../../contracts/gates.types.ts'
import { gateKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'
import type { StoredRecipe } from '../runtime/stored-recipe.ts'
import { readOrThrow } from '../runtime/stored-tasks.ts'
import { readSuiteOrigin } from '../evaluation/suite-origin.ts'
import { taskEvidence } from './gate-evidence.ts'

/** Puts together what the gate of a suite found, and what the filters of `longhaul tasks import` read of it. */
export async function writeGateReport(
  store: ArtifactStore,
  { run, suite }: { run: string; suite: string },
): Promise<WrittenGateReport> {
  const { recipe } = await readOrThrow<StoredRecipe>(store, runKeys.recipe(run))
  const { taskIds, name } = await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(suite))
  const gates: TaskGate[] = []
  const evidence: string[] = []
  for (const taskId of taskIds) {
    const gate = await readOrThrow<TaskGate>(store, gateKeys.task(run, suite, taskId))
    gates.push(gate)
    const line = await taskEvidence(store, gate)
    if (line !== null) evidence.push(`${JSON.stringify(line)}\n`)
  }
  const origin = await readSuiteOrigin(store, suite)
  const report = sumUp({ run, suite, name, origin, repeats: recipe.data.gate.repeats, gates })
  return {
    counts: report.counts,
    report: await store.putRecord(gateKeys.report(run, suite, 'report.json'), report),
    evidence: await store.put(gateKeys.report(run, suite, 'evidence.jsonl'), Buffer.from(evidence.join(''))),
  }
}

function sumUp(input: Pick<GateReport, 'run' | 'suite' | 'name' | 'origin' | 'repeats' | 'gates'>): GateReport {
  const { run, suite, name, origin, repeats, gates } = input
  const counts: GateCounts = {
    passed: 0,
    'gold-fails': 0,
    'empty-resolves': 0,
    flaky: 0,
    'not-auditable': 0,
    'could-not-gate': 0,
  }
  for (const { outcome } of gates) counts[outcome] += 1
  const total = gates.reduce((sum, { gradings }) => sum + gradings.gold + gradings.empty, 0)
  const made = gates.reduce((sum, { gradings }) => sum + gradings.made, 0)
  const peaks = gates.flatMap(({ peakMemoryBytes: peak }) => (peak === null ? [] : [peak]))
  return {
    schema: 'longhaul.gate-report/1',
    run,
    suite,
    name,
    origin: origin ?? null,
    repeats,
    tasks: gates.length,
    counts,
    gradings: { total, made, reused: total - made },
    gradeMs: spread(gates),
    peakMemoryBytes: peaks.length === 0 ? null : Math.max(...peaks),
    withoutMemory: gates.filter(({ peakMemoryBytes, gradeMs }) => gradeMs !== null && peakMemoryBytes === null).length,
    gates,
  }
}

/** Over tasks: the median of their medians, and the longest grading of all. */
function spread(gates: readonly TaskGate[]): GateReport['gradeMs'] {
  const times = gates.flatMap(({ gradeMs }) => (gradeMs === null ? [] : [gradeMs]))
  if (times.length === 0) return null
  const medians = times.map(({ p50 }) => p50).toSorted((a, b) => a - b)
  return { p50: medians[Math.floor((medians.length - 1) / 2)] ?? 0, max: Math.max(...times.map(({ max }) => max)) }
}
