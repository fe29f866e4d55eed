import { evaluationOf, headlineEvaluation } from '../../contracts/episode-purpose.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { AttemptSummary, EvaluationDocument, EvaluationRecord } from '../../contracts/evaluations.types.ts'
import type { GatedSuite } from '../../contracts/gates.types.ts'
import { gateKeys, runKeys } from '../../contracts/keys.ts'
import type { NightRecord } from '../../contracts/nights.types.ts'
import type { EvaluationPage, ReadEvaluationInput } from '../../contracts/workflows.types.ts'
import { compareText } from '../../domain/hash-order.ts'
import { packPage } from '../../platform/packed-pages.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { requireRunName } from '../run/run-names.ts'
import { readEvaluations } from './report-data.ts'
import type { RunClaim, StoredRecipe } from '../../contracts/run-records.types.ts'

/** @throws LonghaulError `Config.NotFound` with the existing names */
export async function readEvaluation(
  store: ArtifactStore,
  { run, name, from = 0 }: ReadEvaluationInput,
): Promise<EvaluationPage> {
  return packPage(await readEvaluationDocument(store, { run, name }), from)
}

/** The same in one piece. @throws LonghaulError `Config.NotFound` with the existing names */
export async function readEvaluationDocument(
  store: ArtifactStore,
  { run, name }: { run: string; name?: string | undefined },
): Promise<EvaluationDocument> {
  // The name is part of every key below, so a malformed one must not be used for reading.
  requireRunName(run)
  const evaluations = await readEvaluations(store, run)
  const chosen = name ?? (await ownEvaluation(store, run, evaluations))
  return documentOf(store, selectEvaluation(evaluations, { run, name: chosen }), evaluations)
}

/** Returns the run's own evaluation, without evaluations of older policies beside it. */
export async function ownEvaluation(
  store: ArtifactStore,
  run: string,
  evaluations: readonly EvaluationRecord[],
): Promise<string | undefined> {
  const own = (await store.readRecord<RunClaim>(runKeys.claim(run)))?.evaluation
  return evaluations.some(({ name }) => name === own) ? own : undefined
}

/** Returns the named evaluation; without a name, the last held-out evaluation that is not intermediate. @throws LonghaulError
 *  `Config.NotFound` */
export function selectEvaluation(
  evaluations: readonly EvaluationRecord[],
  { run, name }: { run: string; name?: string | undefined },
): EvaluationRecord {
  const found = name === undefined ? headlineEvaluation(evaluations) : evaluations.find((one) => one.name === name)
  if (found !== undefined) return found
  const names = evaluations.map((one) => one.name).join(', ')
  throw new LonghaulError({
    code: 'Config.NotFound',
    message:
      names === ''
        ? `Expected the name of a run with an evaluation, got ${JSON.stringify(run)}: the workers' artifact store has no evaluation of it`
        : `Expected an evaluation of ${run}, one of ${names}; got ${JSON.stringify(name)}`,
  })
}

async function documentOf(
  store: ArtifactStore,
  evaluation: EvaluationRecord,
  all: readonly EvaluationRecord[],
): Promise<EvaluationDocument> {
  const { run, stage, suite } = evaluation
  const records = await readEpisodeRecords(store, { run, stage, iteration: 0 })
  const gated = await store.readRecord<GatedSuite>(gateKeys.gated(run, suite))
  const stored = await store.readRecord<StoredRecipe>(runKeys.recipe(run))
  const own = evaluationOf(evaluation.name)
  const night = await store.readRecord<NightRecord>(runKeys.night(run, evaluation.name))
  return {
    evaluation,
    ...(night === null || night.verdicts.length === 0 ? {} : { verdicts: night.verdicts }),
    further: all.filter(({ name }) => {
      const other = evaluationOf(name)
      return own.suite === null && other.suite !== null && other.name === own.name && other.iteration === own.iteration
    }),
    attempts: records.map(summarize).toSorted((a, b) => compareText(a.taskId, b.taskId) || a.index - b.index),
    refused: gated?.refused ?? [],
    cutoff: stored?.recipe.model.cutoff ?? null,
  }
}

function summarize(record: EpisodeRecord): AttemptSummary {
  const { taskId, index, disposition, verdict, verdictReason, failure, suspectedHack, turns } = record
  return { taskId, index, disposition, verdict, reason: verdictReason, failure, suspectedHack, turns }
}
