import { evaluationOf } from '../../contracts/episode-purpose.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { policyKeys, runKeys } from '../../contracts/keys.ts'
import type { PolicyRef } from '../../contracts/policy.types.ts'
import type { MeasuredRecord, TrackedPoint, TrackedRun } from '../../contracts/trackers.types.ts'
import type { TrainingRecord } from '../../contracts/training.types.ts'
import { deriveEvaluation } from '../evaluation/derive-evaluation.ts'
import { newestDurations } from '../evaluation/write-report.ts'
import { createTaskReader, readOrThrow, readUnlessCorrupt } from '../runtime/stored-records.ts'
import type { RunClaim, StoredRecipe } from '../../contracts/run-records.types.ts'
import { requireKnownRun } from '../run/run-names.ts'

type Value = Omit<TrackedPoint, 'atMs'>

export interface ReadTrackedRunOptions {
  /** If false, nothing is written, and records that were never sent get the current time. */
  mayWrite: boolean
  /** ms since 1970. @default the clock's */
  now?: () => number
}

/** Returns everything that a run has measured so far, in the form that trackers show. @throws LonghaulError `Config.NotFound` */
export async function readTrackedRun(
  store: ArtifactStore,
  run: string,
  { mayWrite, now = Date.now }: ReadTrackedRunOptions,
): Promise<TrackedRun> {
  const stored = await store.readRecord<StoredRecipe>(runKeys.recipe(run))
  if (stored === null) {
    await requireKnownRun(store, run)
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `Expected the name of a run, got ${JSON.stringify(run)}: the artifact store has no recipe of it`,
    })
  }
  const claim = await store.readRecord<RunClaim>(runKeys.claim(run))
  const measured = new Map([...(await trainingValues(store, run)), ...(await evaluationValues(store, run))])
  const journal = await noteMeasured({ store, run, now, mayWrite }, inOrderOfSteps(measured))
  const points = [...journal].flatMap(([record, atMs]) =>
    (measured.get(record) ?? []).map((value): TrackedPoint => ({ ...value, atMs })),
  )
  return {
    run,
    id: claim?.firstExecutionRunId ?? '',
    facts: { recipe: stored.recipe.name, recipeHash: stored.hash, model: stored.recipe.model.base },
    points,
    isReported: (await newestDurations(store, run)) !== null,
  }
}

interface Journal {
  store: ArtifactStore
  run: string
  now: () => number
  mayWrite: boolean
}

/**
 * Assigns an order and a time to records, which contain neither because a repeated attempt must write the same bytes. A journal stores
 * both. A sender claims entry n + 1 after it has read n entries, so that every sender sees one order, and later entries have later
 * times.
 * @returns time by key of the record, in the order of the journal
 */
async function noteMeasured(
  { store, run, now, mayWrite }: Journal,
  records: readonly string[],
): Promise<Map<string, number>> {
  const keys = await store.list(runKeys.allMeasured(run))
  const entries = await Promise.all(keys.map((key) => readOrThrow<MeasuredRecord>(store, key)))
  const noted = new Map(entries.map(({ record, atMs }) => [record, atMs]))
  let [number, lastMs] = [entries.length, entries.at(-1)?.atMs ?? 0]
  for (const record of records) {
    while (!noted.has(record)) {
      const entry: MeasuredRecord = { schema: 'longhaul.measured/1', record, atMs: Math.max(now(), lastMs + 1) }
      number += 1
      // Another sender may have been faster, with this record or with another.
      const next = mayWrite ? (await store.claimRecord(runKeys.measured(run, number), entry)).record : entry
      lastMs = next.atMs
      noted.set(next.record, next.atMs)
    }
  }
  return noted
}

/** Time between records that are journaled together, as for a run that was played before it was tracked. */
function inOrderOfSteps(measured: ReadonlyMap<string, readonly Value[]>): string[] {
  const first = (values: readonly Value[]): number => values[0]?.step ?? 0
  return [...measured]
    .filter(([, values]) => values.length > 0)
    .toSorted(([a, of], [b, other]) => first(of) - first(other) || (a < b ? -1 : 1))
    .map(([key]) => key)
}

async function trainingValues(store: ArtifactStore, run: string): Promise<[key: string, Value[]][]> {
  const keys = (await store.list(`runs/${run}/training/`)).filter((key) => key.endsWith('.json'))
  return Promise.all(
    keys.map(async (key): Promise<[string, Value[]]> => {
      const record = await readUnlessCorrupt<TrainingRecord>(store, key)
      return [key, record === null ? [] : valuesOfTraining(record)]
    }),
  )
}

/** `<stage>/<figure>` for each finite figure of each optimizer step. */
function valuesOfTraining({ stage, steps }: TrainingRecord): Value[] {
  return steps.flatMap(({ global_step: step, ...figures }) =>
    isStep(step)
      ? finite(Object.entries(figures).map(([name, value]) => [`${stage}/${name}`, value])).map(at(step))
      : [],
  )
}

async function evaluationValues(store: ArtifactStore, run: string): Promise<[key: string, Value[]][]> {
  const keys = (await store.list(`runs/${run}/evaluations/`)).filter((key) => key.endsWith('.json'))
  const found: [string, Value[]][] = []
  for (const key of keys) {
    const record = await readCurrent(store, key)
    const policy =
      record === null ? null : await readUnlessCorrupt<PolicyRef>(store, policyKeys.ref(record.score.policy))
    if (record !== null && isStep(policy?.globalStep)) found.push([key, valuesOfEvaluation(record, policy.globalStep)])
  }
  return found
}

/** Records of an earlier version contain less and are derived again, as in reports. */
async function readCurrent(store: ArtifactStore, key: string): Promise<EvaluationRecord | null> {
  const stored = await readUnlessCorrupt<Omit<EvaluationRecord, 'schema'> & { schema: string }>(store, key)
  if (stored === null || stored.schema === 'longhaul.evaluation/2') return stored as EvaluationRecord | null
  return (await deriveEvaluation({ store, tasks: createTaskReader(store) }, stored)).evaluation
}

/** `eval/held-out/pass_at_1`, `eval/<suite>/…`; `eval-inside/…` for evaluations inside a stage, which may play fewer tasks. */
function valuesOfEvaluation(record: EvaluationRecord, step: number): Value[] {
  const { iteration, suite } = evaluationOf(record.name)
  const series = `eval${iteration === null ? '' : '-inside'}/${suite ?? 'held-out'}`
  const { score, interval, official, audited, totals } = record
  const figures: Record<string, unknown> = {
    pass_at_1: score.passAt1,
    sem: score.sem,
    interval_low: interval?.low,
    interval_high: interval?.high,
    tasks: score.tasks,
    attempts: score.attempts,
    official_pass_at_1: official.passAt1,
    audited_pass_at_1: audited?.passAt1,
    infra: record.infra,
    could_not_grade: record.couldNotGrade,
    suspected_hacks: record.suspectedHacks,
    turns_mean: record.turns.mean,
    format_error_turns: totals.formatErrorTurns,
    sampled_tokens_mean: record.sampledTokens?.mean,
    wall_seconds_mean: record.wallSeconds?.mean,
    prompt_tokens_mean: record.promptTokens?.mean,
    cached_tokens_mean: record.cachedTokens?.mean,
    cost_mean: record.cost?.attempt?.mean,
  }
  for (const { k, any, all } of record.passAtK) {
    figures[`any_of_${k}`] = any?.mean
    figures[`all_of_${k}`] = all?.mean
  }
  return finite(Object.entries(figures).map(([name, value]) => [`${series}/${name}`, value])).map(at(step))
}

function finite(entries: readonly (readonly [metric: string, value: unknown])[]): { metric: string; value: number }[] {
  return entries.flatMap(([metric, value]) =>
    typeof value === 'number' && Number.isFinite(value) ? [{ metric, value }] : [],
  )
}

function at(step: number): (one: { metric: string; value: number }) => Value {
  return ({ metric, value }) => ({ metric, step, value })
}

function isStep(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}
