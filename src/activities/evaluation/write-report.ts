import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import { renderHtmlReport } from '../../report/html-report.ts'
import { renderJsonReport } from '../../report/json-report.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { gatherReportData, requireScores } from './report-data.ts'
import type { DurationsRecord } from '../../contracts/costs.types.ts'

export interface WriteReportInput {
  run: string
  durations: Record<string, number>
  /** Scores that the workflow returns with the report. */
  scores?: StageScore[]
  /** The workflow holds a decision on promotion. @default false */
  promoted?: true
}

/** Limit on reports of a continued run; a hundred continuations must be a loop. */
const MAX_REPORTS = 100

/**
 * Report files of a run: `report.html`, and `report-2.html` … if the run was continued and its figures have changed.
 * @throws LonghaulError `Run.EndedByHand` if a score of the workflow is not that of its record, or if a decision on promotion has none
 */
export async function writeReport(
  { store }: { store: ArtifactStore },
  input: WriteReportInput,
): Promise<{ html: ArtifactRef; json: ArtifactRef }> {
  await requireScores(store, input.run, input.scores ?? [])
  if (input.promoted === true) await requireDecision(store, input.run)
  const data = await gatherReportData(store, input)
  const files = { json: encode(renderJsonReport(data)), html: encode(renderHtmlReport(data)) }
  for (let number = 1; ; number++) {
    try {
      const record: DurationsRecord = { schema: 'longhaul.durations/1', durations: input.durations }
      await store.putRecord(runKeys.durations(input.run, number), record)
      const json = await store.put(reportKey(input.run, number, 'json'), files.json)
      const html = await store.put(reportKey(input.run, number, 'html'), files.html)
      return { html, json }
    } catch (error) {
      const isTaken = isLonghaulError(error) && error.code === 'Artifact.Conflict'
      if (!isTaken || number === MAX_REPORTS) throw error
    }
  }
}

async function requireDecision(store: ArtifactStore, run: string): Promise<void> {
  const key = runKeys.promotion(run)
  if ((await store.readRecord(key)) !== null) return
  throw new LonghaulError({
    code: 'Run.EndedByHand',
    message:
      'Expected the record of the decision on promotion: the activity promote was completed by hand. Start the run again under its name, and it continues from its records',
    details: { key },
  })
}

export function reportKey(run: string, number: number, ending: 'json' | 'html'): string {
  return runKeys.report(run, `${number === 1 ? 'report' : `report-${number}`}.${ending}`)
}

/** Number and durations of the newest report; null for a run that has not ended. */
export async function newestDurations(
  store: ArtifactStore,
  run: string,
): Promise<{ number: number; durations: Record<string, number> } | null> {
  const newest = (await store.list(`runs/${run}/durations/`)).at(-1)
  if (newest === undefined) return null
  const { durations } = await readOrThrow<DurationsRecord>(store, newest)
  return { number: Number(/(\d+)\.json$/.exec(newest)?.[1]), durations }
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}
