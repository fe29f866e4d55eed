import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { GradingCounts, GradingRecord } from '../../contracts/grading.types.ts'
import { gradingKeys, runKeys } from '../../contracts/keys.ts'
import type { GradePredictionsResult } from '../../contracts/workflows.types.ts'
import { readSuiteOrigin } from '../../activities/evaluation/suite-origin.ts'
import type { SuiteOrigin } from '../../contracts/suites.types.ts'
import { formatOrigin } from '../../report/suite-table.ts'
import { compareGradings } from '../../activities/grading/close-grading.ts'
import type { VerdictComparison } from '../../domain/statistics/compare-verdicts.ts'
import { plainJson } from '../../domain/hostile-text.ts'
import { isLostToInfrastructure } from '../../domain/grading-rules.ts'
import { changesTable, gradingLines, regradeTables } from '../../report/grading-lines.ts'
import { renderTable } from '../../report/text-report.ts'
import type { Console } from './console.ts'
import { combineExitCodes, EXIT, type ExitCode } from './exit-codes.ts'
import type { Conclude } from '../commands/launch-run.ts'
import { gatherReportData } from '../../activities/evaluation/report-data.ts'
import { newestDurations } from '../../activities/evaluation/write-report.ts'
import { unknownRun } from '../../activities/run/run-names.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { JsonReport } from '../../report/json-report.ts'
import type { ReportData } from '../../report/report-data.ts'

/** Null if no such run graded patches, or it has not ended. */
export function readGrading(store: ArtifactStore, run: string): Promise<GradingRecord | null> {
  return store.readRecord<GradingRecord>(gradingKeys.result(run))
}

/** Additions to a grading's own record: the origin of its tasks, and its first verdicts. */
interface GradingContext {
  origin: SuiteOrigin | null
  compared: VerdictComparison | null
}

export async function readGradingContext(store: ArtifactStore, record: GradingRecord): Promise<GradingContext> {
  const { suite } = record
  return {
    origin: suite === null ? null : await readSuiteOrigin(store, suite.hash),
    compared: await compareGradings(store, record),
  }
}

export function renderGrading(record: GradingRecord, { origin, compared }: GradingContext): string {
  const tables = [changesTable(record), ...(compared === null ? [] : regradeTables(compared))]
  const shown = tables.filter(({ rows }) => rows.length > 0).map(renderTable)
  const lines = [...gradingLines(record), ...(origin === null ? [] : [formatOrigin(origin)])]
  return [lines.join('\n'), ...shown].join('\n\n')
}

interface SayGradingInput {
  /** Null if there is none here. */
  store: ArtifactStore | null
  console: Console
  /** Share of patches that must not be lost to infrastructure. */
  minGraded: number
  json: boolean
  /**
   * What else the command does and prints; its exit codes are combined with the others. The record is null where the workers' store is
   * not mounted, so that only the result can be judged.
   */
  alsoDo?: (
    result: GradePredictionsResult,
    record: GradingRecord | null,
  ) => Promise<{ codes: ExitCode[]; lines: string[]; facts: object }>
}

/** Prints what a grading run found. */
export function reportGrading({
  store,
  console,
  minGraded,
  json,
  ...input
}: SayGradingInput): Conclude<GradePredictionsResult> {
  return async (result, ended) => {
    const { run, counts, graded, official, changed } = result
    // A cluster's store may not be mounted here; then the scores of the result are shown.
    const record = store === null ? null : await readGrading(store, run)
    const share = record === null ? judgedShare(counts) : keptShare(record)
    const context = store === null || record === null ? null : await readGradingContext(store, record)
    const more = await input.alsoDo?.(result, record)
    const exitCode = combineExitCodes([ended, share < minGraded ? EXIT.infra : EXIT.ok, ...(more?.codes ?? [])])
    if (json) {
      const instances = record?.instances ?? null
      const facts = { run, counts, graded, official, changed, instances, ...context, ...more?.facts }
      console.record({ event: 'done', exitCode, ...facts })
      return exitCode
    }
    console.out(
      [
        record === null || context === null
          ? plainJson(JSON.stringify({ run, counts, graded, official, changed }))
          : renderGrading(record, context),
        ...(share < minGraded ? [lostLine(share, record)] : []),
        ...(more?.lines ?? []),
        `longhaul report ${run}  shows this again`,
      ].join('\n'),
    )
    return exitCode
  }
}

function keptShare({ instances }: GradingRecord): number {
  return instances.length === 0 ? 1 : 1 - instances.filter(isLostToInfrastructure).length / instances.length
}

/** Without the record it is not known whose fault a missing verdict is, so none counts as the patch's own. */
function judgedShare({ resolved, unresolved, couldNotGrade }: GradingCounts): number {
  const all = resolved + unresolved + couldNotGrade
  return all === 0 ? 1 : 1 - couldNotGrade / all
}

function lostLine(share: number, record: GradingRecord | null): string {
  const lost = `${((1 - share) * 100).toFixed(1)} % of the patches`
  if (record !== null) return `too little was graded: infrastructure took ${lost}`
  return `too little was graded: ${lost} have no verdict, and the reasons cannot be read here: set LONGHAUL_ARTIFACTS to the workers’ store`
}

/** The newest stored report files of a run: `report.html`, or `report-2.html` … if it was continued. */
interface StoredReport {
  json: JsonReport
  jsonPath: string
  htmlPath: string
}

export async function newestReport(store: ArtifactStore, run: string): Promise<StoredReport | null> {
  const keys = await store.list(runKeys.report(run, ''))
  const numbered = keys.flatMap((key) => {
    const found = /\/report(?:-(\d+))?\.json$/.exec(key)
    return found === null ? [] : [{ key, number: Number(found[1] ?? 1) }]
  })
  const newest = numbered.toSorted((a, b) => b.number - a.number)[0]
  const bytes = newest === undefined ? null : await store.read(newest.key)
  if (newest === undefined || bytes === null) return null
  return {
    json: JSON.parse(new TextDecoder().decode(bytes)) as JsonReport,
    jsonPath: store.locate(newest.key),
    htmlPath: store.locate(newest.key.replace(/\.json$/, '.html')),
  }
}

/** Built from the records, so that an unfinished run has a report too; durations are known once the run has ended. */
export async function reportOf(store: ArtifactStore, run: string): Promise<ReportData> {
  const newest = await newestDurations(store, run)
  try {
    return await gatherReportData(store, { run, durations: newest?.durations ?? {} })
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Artifact.Missing') throw error
    // A run that has records is known: the error names the one that is missing.
    if ((await store.read(runKeys.claim(run))) !== null) throw error
    throw await unknownRun(store, run, error)
  }
}
