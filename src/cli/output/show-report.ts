import { gatherReportData } from '../../activities/evaluation/report-data.ts'
import { newestDurations } from '../../activities/evaluation/write-report.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { JsonReport } from '../../report/json-report.ts'
import type { ReportData } from '../../report/report-data.ts'

/** The newest stored report files of a run: `report.html`, or `report-2.html` … where it was continued. */
export interface StoredReport {
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
    jsonPath: store.path(newest.key),
    htmlPath: store.path(newest.key.replace(/\.json$/, '.html')),
  }
}

/** From the records, so that an unfinished run has a report too; durations are known once the run has ended. */
export async function reportOf(store: ArtifactStore, run: string): Promise<ReportData> {
  const newest = await newestDurations(store, run)
  try {
    return await gatherReportData(store, { run, durations: newest?.durations ?? {} })
  } catch (error) {
    if (!isLonghaulError(error) || error.code !== 'Artifact.Missing') throw error
    throw new LonghaulError({
      code: 'Config.NotFound',
      message: `No run called ${JSON.stringify(run)} is in the artifact store at ${store.path('runs')}; LONGHAUL_ARTIFACTS names another`,
      cause: error,
    })
  }
}
