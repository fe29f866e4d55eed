/** Exports a run, an evaluation or a stage as a file for other programs, from stored records alone, without a worker or a server. */
import { writeParquet } from '../../adapters/exports/parquet-file.ts'
import { writeExportFile } from '../../adapters/exports/write-export.ts'
import { writePredictions } from '../../adapters/predictions/predictions.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { evaluationName, purposeOf } from '../../contracts/episode-purpose.ts'
import { LonghaulError, assertNever } from '../../contracts/errors.ts'
import { episodeKeys, runKeys } from '../../contracts/keys.ts'
import { EPISODE_COLUMNS, EPISODE_SCHEMA, csvHeader, csvRow, episodeRow } from '../../report/exports/episode-columns.ts'
import { renderJUnit } from '../../report/junit.ts'
import { readEvaluationDocument } from '../evaluation/read-evaluation.ts'
import { readEvaluations } from '../evaluation/report-data.ts'
import { readUnlessCorrupt } from '../runtime/stored-records.ts'
import { type ExportSubject, findExportSubject } from './export-subject.ts'
import { readEpisodeFacts } from './read-episode-facts.ts'
import { exportAtif, exportTrajectories } from './export-trajectories.ts'
import {
  type EpisodeCounts,
  type ExportRunInput,
  type ExportSummary,
  requireSome,
  summaryHead,
} from './export-summary.ts'
import type { RunClaim, StoredRecipe } from '../../contracts/run-records.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { Prediction } from '../../contracts/grading.types.ts'
import { isPolicyDisposition } from '../../domain/ledger/episode-fates.ts'
import { readEpisodeRecords } from '../episode/episode-records.ts'
import { readIterationPlans } from '../evaluation/played-tasks.ts'

/** @throws LonghaulError `Config.NotFound` with the existing names, `Config.Invalid` if the path is taken */
export async function exportRun(input: ExportRunInput): Promise<ExportSummary> {
  switch (input.format) {
    case 'csv':
    case 'parquet':
      return exportTable(input, input.format)
    case 'junit':
      return exportJUnit(input)
    case 'predictions':
      return exportPredictions(input)
    case 'atif':
      return exportAtif(input)
    case 'trajectories':
      return exportTrajectories(input)
    default:
      return assertNever(input.format)
  }
}

async function exportTable(input: ExportRunInput, format: 'csv' | 'parquet'): Promise<ExportSummary> {
  const { store, place, signal } = input
  const subject = await findExportSubject(store, input.subject)
  const episodes: EpisodeCounts = { finished: 0, unfinished: 0, unreadable: 0 }
  async function* rows(): AsyncGenerator<ReturnType<typeof episodeRow>> {
    for await (const facts of readEpisodeFacts({ store, subject, ...(signal === undefined ? {} : { signal }) })) {
      episodes[facts.state] += 1
      yield episodeRow(facts)
    }
  }
  const metadata = format === 'parquet' ? await tableMetadata(store, subject) : {}
  const written = await writeExportFile(place, async (sink) => {
    if (format === 'parquet') await writeParquet(sink, { columns: EPISODE_COLUMNS, rows: rows(), metadata })
    else {
      await sink.write(csvHeader(EPISODE_COLUMNS))
      for await (const row of rows()) await sink.write(csvRow(EPISODE_COLUMNS, row))
    }
    requireSome(subject, episodes, 'episodes')
  })
  return { ...summaryHead(subject, input, written), episodes }
}

async function tableMetadata(store: ArtifactStore, { run, stages }: ExportSubject): Promise<Record<string, string>> {
  const stored = await readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(run))
  return {
    'longhaul.schema': EPISODE_SCHEMA,
    'longhaul.run': run,
    'longhaul.stages': stages.join(' '),
    ...(stored === null ? {} : { 'longhaul.recipe_sha256': stored.hash }),
  }
}

async function exportJUnit(input: ExportRunInput): Promise<ExportSummary> {
  const { store, place } = input
  const subject = await findExportSubject(store, input.subject, { ofEvaluations: true })
  const { run, stage } = subject
  const purpose = stage === null ? null : purposeOf(stage)
  const name = purpose?.kind === 'evaluation' ? { name: evaluationName(purpose) } : {}
  const document = await readEvaluationDocument(store, { run, ...name })
  const claim = await readUnlessCorrupt<RunClaim>(store, runKeys.claim(run))
  const text = renderJUnit(document, { workflowId: claim?.workflowId ?? run, verdicts: [] })
  const written = await writeExportFile(place, (sink) => sink.write(text))
  const { evaluation, refused } = document
  const all = stage === null ? await readEvaluations(store, run) : []
  return {
    ...summaryHead({ ...subject, stages: [evaluation.stage] }, input, written),
    evaluation: evaluation.name,
    tasks: evaluation.tasks.length + refused.length,
    others: all.map((one) => one.name).filter((one) => one !== evaluation.name),
  }
}

async function exportPredictions(input: ExportRunInput): Promise<ExportSummary> {
  const { store, place, predictions: options } = input
  const subject = await findExportSubject(store, input.subject)
  const { attempt = 1, model = null, layout = 'json' } = options ?? {}
  const { run, stage } = subject
  const found = await predictionsOfRun({ store, run, stage, attempt, model })
  const { unwritable, missing } = found
  const written = await writeExportFile(place, (sink) => sink.write(writePredictions(found.predictions, layout)))
  const empty = found.predictions.filter(({ patch }) => patch === '').length
  return {
    ...summaryHead({ ...subject, stages: [found.stage] }, input, written),
    predictions: { written: found.predictions.length, empty, unwritable, missing },
  }
}

export interface RunPredictionsInput {
  store: ArtifactStore
  run: string
  /** Stage whose first iteration is used, such as `eval-rl`; null for the only evaluation of the run. */
  stage: string | null
  /** Number of the attempt at each task, from 1; attempts lost to infrastructure do not count. */
  attempt: number
  /** Name of the model; null for the policy's version. */
  model: string | null
}

export interface RunPredictions {
  stage: string
  predictions: Prediction[]
  /** Patches that a predictions file cannot represent, because they are not UTF-8. */
  unwritable: string[]
  /** Tasks without such an attempt. */
  missing: string[]
}

/**
 * Returns one attempt at every task of an evaluation as predictions. An attempt without a submission is an empty patch.
 * @throws LonghaulError `Config.NotFound` with the existing stages
 */
async function predictionsOfRun(input: RunPredictionsInput): Promise<RunPredictions> {
  const { store, run, attempt, model } = input
  const plan = await findPlan(input)
  const records = Map.groupBy(await readEpisodeRecords(store, plan), ({ taskId }) => taskId)
  const found: RunPredictions = { stage: plan.stage, predictions: [], unwritable: [], missing: [] }
  for (const taskId of plan.taskIds) {
    const played = (records.get(taskId) ?? []).filter(({ disposition }) => isPolicyDisposition(disposition))
    const record = played.toSorted((a, b) => a.index - b.index)[attempt - 1]
    if (record === undefined) {
      found.missing.push(taskId)
      continue
    }
    const patch = await patchOf(store, record)
    if (patch === null) found.unwritable.push(taskId)
    else found.predictions.push({ taskId, model: model ?? record.policy, patch })
  }
  if (found.predictions.length > 0) return found
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected attempt ${attempt} at the tasks of ${run}, stage ${plan.stage}, but there is none`,
  })
}

async function findPlan({ store, run, stage }: RunPredictionsInput) {
  const plans = await readIterationPlans(store, run)
  const matching = plans.filter((plan) =>
    stage === null ? purposeOf(plan.stage).kind === 'evaluation' : plan.stage === stage,
  )
  const [only, ...others] = matching
  if (only !== undefined && others.length === 0) return only
  const stages = [...new Set(plans.map((plan) => plan.stage))].join(', ')
  const message =
    plans.length === 0
      ? `No run called ${JSON.stringify(run)} with episodes is in the artifact store at ${store.locate('runs')}`
      : matching.length === 0
        ? `Expected a stage of ${run}, one of ${stages}; got ${stage ?? 'no evaluation'}`
        : `Expected one evaluation of ${run}, such as ${run}:${matching[0]?.stage}: a file of predictions has one patch a task. There are ${stages}`
  throw new LonghaulError({ code: 'Config.NotFound', message })
}

/** Returns null if the bytes are not UTF-8, because a changed patch would be another prediction. */
async function patchOf(store: ArtifactStore, { episode }: EpisodeRecord): Promise<string | null> {
  const bytes = (await store.read(episodeKeys.patch(episode))) ?? new Uint8Array()
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return null
  }
}
