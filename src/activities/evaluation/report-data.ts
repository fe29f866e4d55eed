import { missingArtifact } from '../../adapters/artifacts/store-rules.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'
import { evaluationOf, isHeldOut, purposeOf } from '../../contracts/episode-purpose.ts'
import { gateKeys, policyKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { NightRecord } from '../../contracts/nights.types.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { OverlapRecord } from '../../contracts/suites.types.ts'
import type { SuiteManifest } from '../../contracts/tasks.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TrainingRecord } from '../../contracts/training.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { compareText } from '../../domain/hash-order.ts'
import { isValidEpisode } from '../../domain/ledger/episode-fates.ts'
import { INTERVAL_SEED } from '../../domain/statistics/evaluation-summary.ts'
import { differenceInterval } from '../../domain/statistics/score-interval.ts'
import { pairTasks, toOutcomes } from '../../domain/statistics/comparison.ts'
import { onlyQuick } from '../../domain/statistics/quick-tasks.ts'
import { pairedDifference, passAt1 } from '../../domain/statistics/statistics.ts'
import { gatherFlagged, type CurvePoint, type ReportData } from '../../report/report-data.ts'
import { requireRunWithEpisodes } from '../run/run-names.ts'
import { createTaskReader, readOrThrow } from '../runtime/stored-records.ts'
import { readRunCosts } from './read-costs.ts'
import { readRunLineage } from './read-lineage.ts'
import { readSuiteOrigin } from './suite-origin.ts'
import { checkLedger } from '../training/check-ledger.ts'
import { deriveEvaluation } from './derive-evaluation.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { readIterationPlans } from './played-tasks.ts'
import { packageVersion } from '../../platform/code-version.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'

/** Gathers a run's report from its records alone, so the result is the same whenever it is computed, even long after the run. */
export async function gatherReportData(
  store: ArtifactStore,
  { run, durations }: { run: string; durations: Record<string, number> },
): Promise<ReportData> {
  const claim = await requireRunWithEpisodes(store, run)
  if (claim === null) throw missingArtifact(runKeys.claim(run))
  const { recipe, hash } = await readOrThrow<StoredRecipe>(store, runKeys.recipe(run))
  const all = await readEvaluations(store, run)
  const evaluations = all.filter(({ name }) => evaluationOf(name).iteration === null)
  const { totals, mismatches } = await checkLedger({ store, recipe }, run)
  return {
    run,
    kind: claim.kind,
    recipe: { name: recipe.name, hash, seed: recipe.seed, base: recipe.model.base },
    evaluations,
    paired: pairs(evaluations),
    curve: await curve(
      store,
      run,
      all.filter(({ name }) => evaluationOf(name).suite === null),
      recipe.evaluate.quick,
    ),
    training: await readAll<TrainingRecord>(store, `runs/${run}/training/`),
    costs: await readRunCosts(store, { run, recipe }),
    lineage: await readRunLineage(store, { run, recipeSha256: hash, evaluations: all }),
    ledger: { totals, mismatches: mismatches.length },
    flagged: await flaggedEpisodes(store, run),
    ...(await comparedNights(store, run)),
    ...(await promotionOf(store, run)),
    cutoff: recipe.model.cutoff ?? null,
    suites: await playedSuites(store, run),
    refused: await refusedTasks(store, run),
    durations,
    versions: { longhaul: packageVersion(), node: process.version },
  }
}

/** Uses the comparisons as decided when the evaluation ended; later events do not change them. */
async function comparedNights(store: ArtifactStore, run: string): Promise<Pick<ReportData, 'nights'>> {
  const records = await readAll<NightRecord>(store, runKeys.nights(run))
  const nights = records.flatMap(({ night, verdicts }) => verdicts.map((verdict) => ({ name: night.name, ...verdict })))
  return nights.length === 0 ? {} : { nights }
}

async function promotionOf(store: ArtifactStore, run: string): Promise<Pick<ReportData, 'promotion'>> {
  const decision = await store.readRecord<{ gate: string; why: string }>(runKeys.promotion(run))
  return decision === null || decision.gate === 'always' ? {} : { promotion: decision.why }
}

/** Returns evaluations in the order in which they were made, as stored. Records of an earlier version, which contain less, are
 *  derived again. */
export async function readEvaluations(store: ArtifactStore, run: string): Promise<EvaluationRecord[]> {
  const tasks = createTaskReader(store)
  const stored = await readAll<Omit<EvaluationRecord, 'schema'> & { schema: string }>(store, `runs/${run}/evaluations/`)
  const current: EvaluationRecord[] = []
  for (const record of stored) {
    if (record.schema === 'longhaul.evaluation/2') current.push(record as EvaluationRecord)
    else current.push((await deriveEvaluation({ store, tasks }, record)).evaluation)
  }
  return orderEvaluations(current)
}

/** Null for all other names. */
const FIXED_ORDER: readonly (string | null)[] = ['base', 'rft', null, 'rl']

function rankOf(evaluation: string): number {
  const { name } = evaluationOf(evaluation)
  return FIXED_ORDER.includes(name) ? FIXED_ORDER.indexOf(name) : FIXED_ORDER.indexOf(null)
}

type Ordered = Pick<EvaluationRecord, 'name'> & { score: Pick<StageScore, 'policy'> }

/**
 * Order: base, rft, stages, rl. Stages, and older policies of one night, follow in the order of their policies, whose versions begin with
 * the optimizer step: names tell no order. Further suites follow the held-out one of the same policy.
 */
export function orderEvaluations<T extends Ordered>(evaluations: T[]): T[] {
  return evaluations.sort(
    (a, b) =>
      rankOf(a.name) - rankOf(b.name) || compareText(a.score.policy, b.score.policy) || compareText(a.name, b.name),
  )
}

/** Names among which the last held-out evaluation is: several if only their records tell which one that is. */
export function lastEvaluations(names: readonly string[]): string[] {
  const heldOut = names.filter((name) => isHeldOut({ name }))
  const last = Math.max(...heldOut.map(rankOf))
  return heldOut.filter((name) => rankOf(name) === last)
}

/** Evaluations of one suite. A difference between two suites would reflect the suites. */
function pairs(evaluations: EvaluationRecord[]): ReportData['paired'] {
  return evaluations.flatMap((before, index) =>
    evaluations
      .slice(index + 1)
      .filter(({ suite }) => suite === before.suite)
      .map((after) => ({
        before: before.name,
        after: after.name,
        ...pairedDifference({ before: before.tasks, after: after.tasks }),
        interval: differenceInterval({
          tasks: pairTasks(before.tasks, after.tasks).shared.map(toOutcomes),
          seed: INTERVAL_SEED,
        }),
      })),
  )
}

/** All held-out points use the same tasks: if intermediate evaluations play a subset, all points are computed on that subset. */
async function curve(
  store: ArtifactStore,
  run: string,
  evaluations: EvaluationRecord[],
  quick: readonly string[] | null,
): Promise<CurvePoint[]> {
  const evaluated: CurvePoint[] = []
  for (const { name, score, tasks: all } of evaluations) {
    const { globalStep } = await readOrThrow<PolicyRef>(store, policyKeys.ref(score.policy))
    const { mean, taskSem, tasks } = passAt1(onlyQuick(all, quick))
    if (tasks === 0) continue
    evaluated.push({ kind: 'evaluation', label: name, globalStep, mean, sem: taskSem, tasks, attempts: score.attempts })
  }
  const points = [...evaluated, ...(await rolloutPoints(store, run))]
  return points.sort((a, b) => a.globalStep - b.globalStep || (a.label < b.label ? -1 : 1))
}

/** Share of resolved training rollouts of each iteration, with a standard error clustered by task. */
async function rolloutPoints(store: ArtifactStore, run: string): Promise<CurvePoint[]> {
  const plans = (await readIterationPlans(store, run)).filter(({ stage }) => purposeOf(stage).kind !== 'evaluation')
  const points: CurvePoint[] = []
  for (const { stage, iteration } of plans) {
    const records = await readEpisodeRecords(store, { run, stage, iteration })
    const valid = records.filter(isValidEpisode)
    const [first] = valid
    if (first === undefined) continue
    const { globalStep } = await readOrThrow<PolicyRef>(store, policyKeys.ref(first.policy))
    const byTask = Map.groupBy(valid, ({ taskId }) => taskId)
    const tasks = [...byTask].map(([taskId, siblings]) => ({
      taskId,
      outcomes: siblings.map(({ verdict }): 0 | 1 => (verdict === 'resolved' ? 1 : 0)),
    }))
    const { mean, taskSem } = passAt1(tasks)
    const attempts = Math.max(...tasks.map(({ outcomes }) => outcomes.length))
    const label = purposeOf(stage).kind === 'rft' ? stage : `${stage} ${iteration}`
    points.push({ kind: 'rollout', label, globalStep, mean, sem: taskSem, tasks: tasks.length, attempts })
  }
  return points
}

/** Maximum number of suspected hacks that a report lists; the rest are counted. */
const MAX_NAMED = 100

async function flaggedEpisodes(store: ArtifactStore, run: string): Promise<ReportData['flagged']> {
  const records: EpisodeRecord[] = []
  for (const { stage, iteration } of await readIterationPlans(store, run))
    records.push(...(await readEpisodeRecords(store, { run, stage, iteration })))
  return gatherFlagged(records, MAX_NAMED)
}

export async function playedSuites(store: ArtifactStore, run: string): Promise<ReportData['suites']> {
  const bySuite = Map.groupBy(await readIterationPlans(store, run), ({ suite }) => suite)
  const suites: ReportData['suites'] = []
  for (const [suite, plans] of bySuite) {
    const manifest = await store.readRecord<SuiteManifest>(suiteKeys.manifest(suite))
    suites.push({
      suite,
      uses: [...new Set(plans.map(({ stage }) => stage))].toSorted(),
      tasks: manifest?.taskIds.length ?? new Set(plans.flatMap(({ taskIds }) => taskIds)).size,
      origin: await readSuiteOrigin(store, suite),
    })
  }
  return suites.toSorted((a, b) => (a.suite < b.suite ? -1 : 1))
}

async function refusedTasks(store: ArtifactStore, run: string): Promise<ReportData['refused']> {
  const plans = await readIterationPlans(store, run)
  const refused: ReportData['refused'] = []
  for (const suite of new Set(plans.map((plan) => plan.suite))) {
    const gated = await store.readRecord<GatedSuite>(gateKeys.gated(run, suite))
    refused.push(...(gated?.refused ?? []))
  }
  const overlap = await store.readRecord<OverlapRecord>(runKeys.overlap(run))
  for (const taskId of overlap?.excluded ?? []) {
    const found = overlap?.overlaps.find((one) => one.taskId === taskId)
    refused.push({ taskId, reason: `not trained on: it is ${found?.as} of ${found?.suite}` })
  }
  return refused
}

async function readAll<T extends object>(store: ArtifactStore, prefix: string): Promise<T[]> {
  const keys = (await store.list(prefix)).filter((key) => key.endsWith('.json'))
  const records: T[] = []
  for (const key of keys) records.push(await readOrThrow<T>(store, key))
  return records
}

type Figures = Pick<StageScore, 'name' | 'policy' | 'passAt1' | 'sem' | 'tasks' | 'attempts'>

/**
 * A person can complete an activity by hand with any score, so those that a workflow holds are compared with the records before they are
 * promoted or returned.
 * @throws LonghaulError `Run.EndedByHand` if a score is not that of its evaluation; `Artifact.Missing` without the evaluation
 */
export async function requireScores(store: ArtifactStore, run: string, scores: readonly Figures[]): Promise<void> {
  for (const held of scores) {
    const { score } = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation(run, held.name))
    const isSame = (['policy', 'passAt1', 'sem', 'tasks', 'attempts'] as const).every((key) => held[key] === score[key])
    if (isSame) continue
    throw new LonghaulError({
      code: 'Run.EndedByHand',
      message: `Expected the score of ${held.name} to be that of its record, ${say(score)}, got ${say(held)}: an activity was completed by hand. Start the run again under its name, and it continues from its records`,
      details: { key: runKeys.evaluation(run, held.name) },
    })
  }
}

function say({ policy, passAt1, tasks, attempts }: Figures): string {
  return `pass@1 ${passAt1} of ${policy} (n = ${tasks}, k = ${attempts})`
}
