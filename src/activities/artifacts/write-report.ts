import type { ArtifactRef, ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { runKeys } from '../../contracts/keys.ts'
import { renderHtmlReport } from '../../report/html-report.ts'
import { renderJsonReport } from '../../report/json-report.ts'
import { gatherReportData } from './report-data.ts'

export interface WriteReportInput {
  run: string
  durations: Record<string, number>
}

/** A run that was continued is reported again; hundred continuations are a loop, not a use. */
const MAX_REPORTS = 100

/** Report files of a run: `report.html`, and `report-2.html` … where the run was continued and its figures have changed. */
export async function writeReport(
  { store }: { store: ArtifactStore },
  input: WriteReportInput,
): Promise<{ html: ArtifactRef; json: ArtifactRef }> {
  const data = await gatherReportData(store, input)
  for (let number = 1; ; number++) {
    const name = number === 1 ? 'report' : `report-${number}`
    try {
      const json = await store.put(runKeys.report(input.run, `${name}.json`), encode(renderJsonReport(data)))
      const html = await store.put(runKeys.report(input.run, `${name}.html`), encode(renderHtmlReport(data)))
      return { html, json }
    } catch (error) {
      const isTaken = isLonghaulError(error) && error.code === 'Artifact.Conflict'
      if (!isTaken || number === MAX_REPORTS) throw error
    }
  }
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}
