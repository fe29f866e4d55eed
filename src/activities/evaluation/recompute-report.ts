import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { evaluationName, evaluationOf, purposeOf, stageOf } from '../../contracts/episode-purpose.ts'
import { runKeys } from '../../contracts/keys.ts'
import { renderHtmlReport } from '../../report/html-report.ts'
import { renderJsonReport } from '../../report/json-report.ts'
import { createTaskReader } from '../runtime/stored-records.ts'
import { deriveEvaluation } from './derive-evaluation.ts'
import { gatherReportData } from './report-data.ts'
import { newestDurations, reportKey } from './write-report.ts'

export interface RecomputedFile {
  key: string
  /** `written` means that the record was missing. */
  state: 'same' | 'written' | 'differs'
}

/**
 * Derives every evaluation of a run, and its newest report, again from plans, episodes' records and verdicts. Missing records are
 * written; existing ones are compared and never replaced. A run that has not ended has no report to compare with.
 */
export async function recomputeReport(store: ArtifactStore, run: string): Promise<RecomputedFile[]> {
  const tasks = createTaskReader(store)
  const files: RecomputedFile[] = []
  for (const name of await evaluationNames(store, run)) {
    const { evaluation } = await deriveEvaluation(
      { store, tasks },
      { run, name, stage: stageOf({ kind: 'evaluation', ...evaluationOf(name) }) },
    )
    files.push(await settle(store, runKeys.evaluation(run, name), (key) => store.putRecord(key, evaluation)))
  }
  const newest = await newestDurations(store, run)
  if (newest === null) return files
  const data = await gatherReportData(store, { run, durations: newest.durations })
  const texts = { json: renderJsonReport(data), html: renderHtmlReport(data) }
  for (const ending of ['json', 'html'] as const) {
    const bytes = new TextEncoder().encode(texts[ending])
    files.push(await settle(store, reportKey(run, newest.number, ending), (key) => store.put(key, bytes)))
  }
  return files
}

/** Lists ended evaluations. Their ledger is written only when they end, before their record. */
async function evaluationNames(store: ArtifactStore, run: string): Promise<string[]> {
  const ledgers = (await store.list(`runs/${run}/`)).filter((key) => key.endsWith('/iterations/0000/ledger.json'))
  return ledgers.flatMap((key) => {
    const purpose = purposeOf(key.split('/')[2] ?? '')
    return purpose.kind === 'evaluation' ? [evaluationName(purpose)] : []
  })
}

async function settle(
  store: ArtifactStore,
  key: string,
  put: (key: string) => Promise<unknown>,
): Promise<RecomputedFile> {
  const isThere = (await store.read(key)) !== null
  try {
    await put(key)
    return { key, state: isThere ? 'same' : 'written' }
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Conflict') return { key, state: 'differs' }
    throw error
  }
}
