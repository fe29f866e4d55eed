import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { GatedSuite, TaskGate, GateCounts, GateReport, GateRecord } from '../../contracts/gates.types.ts'
import { gateKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { type SuiteReader, readOrThrow } from '../runtime/stored-records.ts'
import type { WrittenGateReport } from '../../contracts/activities.types.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'
import { readSuiteOrigin } from '../evaluation/suite-origin.ts'
import type { TaskEvidence } from '../../contracts/suites.types.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'

/** Collects the gates of a suite's tasks into the run's gated list. A refused task ends the run unless the recipe excludes such tasks. */
export async function closeGate(
  deps: { store: ArtifactStore; suites: SuiteReader; recipe: Recipe },
  { run, suite }: { run: string; suite: string },
): Promise<{ admitted: number; refused: number }> {
  const { repeats, refused: onRefused } = deps.recipe.data.gate
  const { taskIds, name } = await deps.suites(suite)
  const gated: GatedSuite = {
    schema: 'longhaul.gated-suite/2',
    suite,
    repeats,
    admitted: [],
    refused: [],
    digests: {},
  }
  for (const taskId of taskIds) {
    const gate = await deps.store.readRecord<TaskGate>(gateKeys.task(run, suite, taskId))
    if (gate?.outcome !== 'passed') gated.refused.push({ taskId, reason: describe(gate) })
    else {
      gated.admitted.push(taskId)
      if (gate.registryDigest !== null) gated.digests[taskId] = gate.registryDigest
    }
  }
  const [first] = gated.refused
  if (first !== undefined && onRefused === 'fail') {
    throw new LonghaulError({
      code: 'Task.GateFailed',
      message: `Expected every task of ${name} to pass its gate, but ${first.taskId} did not: ${first.reason}. Repair or remove the task, or set data.gate.refused to exclude`,
      details: { suite: suite.slice(0, 12), refused: gated.refused.length },
    })
  }
  const { record } = await deps.store.claimRecord(gateKeys.gated(run, suite), gated)
  return { admitted: record.admitted.length, refused: record.refused.length }
}

function describe(gate: TaskGate | null): string {
  return gate === null ? 'could-not-gate: it has no gate' : `${gate.outcome}: ${gate.reason}`
}

/** Collects the findings of a suite's gate, and what the filters of `longhaul tasks import` read from them. */
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

/**
 * The evidence that the filters `hidden-names` and `deterministic` read for one task; null if it was never graded. Of the log without
 * the gold patch only the lines with missing names are kept, because whole logs of thousands of tasks do not fit into one file. A task
 * whose gold patch never resolved, or could not be graded, says nothing about determinism.
 */
async function taskEvidence(store: ArtifactStore, gate: TaskGate): Promise<TaskEvidence | null> {
  const { taskId, identity, outcome, gradings, flips } = gate
  if (identity === null) return null
  const empty =
    gradings.empty === 0 ? null : await store.readRecord<GateRecord>(gateKeys.grading(taskId, identity, 'empty', 1))
  const isGraded = empty !== null && empty.verdict !== 'could-not-grade'
  return {
    instance_id: taskId,
    ...(isGraded ? { emptyLog: empty.missedNames.join('\n') } : {}),
    ...(outcome === 'passed' || outcome === 'flaky'
      ? {
          gold: {
            runs: gradings.gold,
            flipping: flips.filter(({ check }) => check === 'gold').map(({ test }) => test),
          },
        }
      : {}),
  }
}
