/** Exports a run, an evaluation or a stage as a file for other programs, from stored records alone, without a worker or a server. */
import { writeParquet } from '../../adapters/exports/parquet-file.ts'
import { writeExportFile } from '../../adapters/exports/write-export.ts'
import { writePredictions } from '../../adapters/predictions/predictions.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { purposeOf, evaluationName } from '../../contracts/episode-purpose.ts'
import { assertNever } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import { csvHeader, csvRow } from '../../report/exports/csv.ts'
import { EPISODE_COLUMNS, EPISODE_SCHEMA, episodeRow } from '../../report/exports/episode-columns.ts'
import { renderJUnit } from '../../report/junit.ts'
import { readEvaluationDocument } from '../evaluation/read-evaluation.ts'
import { readEvaluations } from '../evaluation/report-data.ts'
import { predictionsOfRun } from '../grading/run-predictions.ts'
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
