import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { evaluationOf } from '../../contracts/episode-purpose.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { nightKeys, runKeys } from '../../contracts/keys.ts'
import type { NightPoint, NightRecord, NightVerdict } from '../../contracts/nights.types.ts'
import type { CompareRecipe } from '../../contracts/recipe.types.ts'
import { gradedShare } from '../../domain/statistics/comparability.ts'
import { judgeNight } from '../../domain/statistics/judge-night.ts'
import { requireRunName } from '../run/run-names.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { ownEvaluation, selectEvaluation } from './read-evaluation.ts'
import { readEvaluations } from './report-data.ts'
import type { StoredRecipe } from '../../contracts/run-records.types.ts'

export interface RecordNightInput {
  run: string
  /** The evaluation that has just ended. */
  name: string
  /** ISO time at which the run began, which determines the order of a series. */
  at: string
  series: string
  /** `main`, `suite:<name>`, or `policy:<version>` for a policy other than the night's own. */
  role: string
}

/** Maximum number of tasks that a verdict names. The evaluation records list all. */
const MOST_NAMED = 1_000

/**
 * Compares an evaluation with the last night and with the baseline that its recipe names, and adds it to its series. Decided once: a
 * continued run or a repeated attempt finds the first result.
 */
export async function recordNight(
  store: ArtifactStore,
  input: RecordNightInput,
): Promise<{ verdicts: NightVerdict[] }> {
  const { run, name } = input
  requireSeries(input.series)
  const key = runKeys.night(run, name)
  const stored = await store.readRecord<NightRecord>(key)
  const record = stored ?? (await store.claimRecord<NightRecord>(key, await judge(store, input))).record
  await store.putRecord(nightKeys.night(record.night), record)
  return { verdicts: record.verdicts }
}

/** The series is part of a key. @throws LonghaulError `Config.Invalid` */
export function requireSeries(series: string): void {
  try {
    requireRunName(series)
  } catch (cause) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected series to be 1 to 100 letters, digits, ".", "_" or "-", got ${JSON.stringify(series)}`,
      cause,
    })
  }
}

async function judge(store: ArtifactStore, input: RecordNightInput): Promise<NightRecord> {
  const { run, name, series, role } = input
  const after = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation(run, name))
  const { recipe } = await readOrThrow<StoredRecipe>(store, runKeys.recipe(run))
  // Recipes older than the comparison of nights lack this part.
  const rules: CompareRecipe | null = recipe.evaluate.compare ?? null
  const verdicts: NightVerdict[] = []
  let common: string[] = []
  if (rules?.last === true) {
    const { verdict, tasks } = await againstLast(store, input, { after, rules })
    verdicts.push(verdict)
    common = tasks.slice(0, MOST_NAMED)
  }
  if (rules !== null && rules.baseline !== null && isMain(role))
    verdicts.push(await againstBaseline(store, rules.baseline, { after, rules }))
  return { schema: 'longhaul.night/1', series, role, verdicts, common, night: pointOf(input, after, verdicts) }
}

/** The baseline is one evaluation, so only the held-out evaluation of the night's own policy is compared with it. */
function isMain(role: string): boolean {
  return role === 'main'
}

interface Judging {
  after: EvaluationRecord
  rules: CompareRecipe
}

async function againstLast(
  store: ArtifactStore,
  input: RecordNightInput,
  { after, rules }: Judging,
): Promise<{ verdict: NightVerdict; tasks: string[] }> {
  const last = await lastNight(store, input)
  if (last === null) {
    return {
      verdict: notCompared('last', null, after, `no earlier night of ${input.series}: the next one compares with this`),
      tasks: [],
    }
  }
  return judgeRecord('last', { after, rules }, () =>
    readOrThrow<EvaluationRecord>(store, runKeys.evaluation(last.night.run, last.night.name)),
  )
}

async function againstBaseline(store: ArtifactStore, baseline: string, judging: Judging): Promise<NightVerdict> {
  const { verdict } = await judgeRecord('baseline', judging, () => readNamedEvaluation(store, baseline))
  return verdict
}

/** Parses `RUN:EVALUATION`, or `RUN` for its last held-out evaluation. @throws LonghaulError `Config.NotFound`, `Config.Invalid` */
export async function readNamedEvaluation(store: ArtifactStore, text: string): Promise<EvaluationRecord> {
  const at = text.indexOf(':')
  const run = at === -1 ? text : text.slice(0, at)
  requireRunName(run)
  const evaluations = await readEvaluations(store, run)
  const name = at === -1 ? await ownEvaluation(store, run, evaluations) : text.slice(at + 1)
  return selectEvaluation(evaluations, { run, name })
}

/** A missing or corrupt earlier record leaves the night without a comparison but does not fail it, because its score is valid. */
async function judgeRecord(
  against: NightVerdict['against'],
  { after, rules }: Judging,
  read: () => Promise<EvaluationRecord>,
): Promise<{ verdict: NightVerdict; tasks: string[] }> {
  try {
    const before = await read()
    const { common, ...judged } = judgeNight(before, after, rules)
    return { verdict: { against, before: nameOf(before), ...judged }, tasks: common }
  } catch (error) {
    // If the store is unavailable, the next attempt asks again.
    if (!isLonghaulError(error) || error.code === 'Artifact.Unavailable') throw error
    return { verdict: notCompared(against, null, after, `${error.code}: ${error.message}`), tasks: [] }
  }
}

function notCompared(
  against: NightVerdict['against'],
  before: NightVerdict['before'],
  after: EvaluationRecord,
  why: string,
): NightVerdict {
  const tasks = { common: 0, onlyBefore: 0, onlyAfter: after.tasks.length, otherRows: 0 }
  return { against, before, outcome: 'not-compared', statement: why, difference: null, tasks }
}

function nameOf({ run, name, score }: EvaluationRecord): NonNullable<NightVerdict['before']> {
  return { run, name, policy: score.policy }
}

/** The newest evaluation of the series that began before this one, in the same role. */
async function lastNight(
  store: ArtifactStore,
  { run, at, series, role }: RecordNightInput,
): Promise<NightRecord | null> {
  const keys = (await store.list(nightKeys.series(series))).toReversed()
  for (const key of keys) {
    const record = await store.readRecord<NightRecord>(key)
    if (record === null || record.role !== role || record.night.run === run || record.night.at >= at) continue
    return record
  }
  return null
}

function pointOf(
  { run, name, at, series }: RecordNightInput,
  evaluation: EvaluationRecord,
  verdicts: readonly NightVerdict[],
): NightPoint {
  const { score, interval, attempts, tasks, origin, suite, turns, sampledTokens, cost } = evaluation
  const split = origin === undefined ? suite.slice(0, 12) : [origin.dataset, origin.split].filter(Boolean).join('/')
  return {
    series,
    run,
    name,
    at,
    policy: score.policy,
    split: evaluationOf(name).suite === null ? split : `${split} (${evaluationOf(name).suite})`,
    revision: origin?.revision ?? null,
    tasks: tasks.length,
    attempts,
    passAt1: score.passAt1,
    interval,
    lost: 1 - gradedShare(evaluation),
    turns: turns.mean,
    sampledTokens: sampledTokens?.mean ?? null,
    cost:
      cost === undefined || cost.attempt === null ? null : { mean: cost.attempt.mean, currency: cost.prices.currency },
    outcomes: verdicts.map(({ against, outcome }) => ({ against, outcome })),
  }
}
