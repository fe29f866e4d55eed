/** The request for an export, and the summary of what was written. */
import type { ExportPlace } from '../../adapters/exports/write-export.ts'
import type { PredictionLayout } from '../../adapters/predictions/predictions.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeFacts } from '../../report/exports/episode-columns.ts'
import type { ExportSubject } from './export-subject.ts'

export const EXPORT_FORMATS = ['csv', 'parquet', 'junit', 'predictions', 'atif', 'trajectories'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

export interface ExportRunInput {
  store: ArtifactStore
  /** `RUN`, `RUN:STAGE` or `RUN:EVALUATION`. */
  subject: string
  format: ExportFormat
  place: ExportPlace
  /** For trajectories only: the hub's identifier for the licence of the collection. */
  license?: string | null
  /** For predictions only. */
  predictions?: { attempt: number; model: string | null; layout: PredictionLayout }
  signal?: AbortSignal
}

/** What was written, and what was not. */
export interface ExportSummary {
  run: string
  stages: string[]
  format: ExportFormat
  out: string
  bytes: number
  sha256: string
  /** For CSV and Parquet: rows by status. For trajectories: episodes by status, of which the finished ones are written. */
  episodes?: EpisodeCounts
  /** For trajectories. */
  files?: number
  /** For JUnit: the evaluation, and the number of its tasks with a test case. */
  evaluation?: string
  tasks?: number
  /** For JUnit of a run without a named evaluation: the other evaluations of the run, which the file leaves out. */
  others?: string[]
  /** For predictions. */
  predictions?: { written: number; empty: number; unwritable: string[]; missing: string[] }
}

export type EpisodeCounts = Record<EpisodeFacts['state'], number>

export function summaryHead(
  { run, stages }: ExportSubject,
  { format, place }: ExportRunInput,
  { bytes, sha256 }: { bytes: number; sha256: string },
): Pick<ExportSummary, 'run' | 'stages' | 'format' | 'out' | 'bytes' | 'sha256'> {
  return { run, stages, format, out: place.path, bytes, sha256 }
}

/** An empty export is the caller's mistake. @throws LonghaulError `Config.NotFound` */
export function requireSome(
  { run, stages }: ExportSubject,
  { finished, unfinished, unreadable }: EpisodeCounts,
  what: 'episodes' | 'finished episodes',
): void {
  if (finished > 0 || (what === 'episodes' && unfinished + unreadable > 0)) return
  throw new LonghaulError({
    code: 'Config.NotFound',
    message: `Expected ${what} in ${run}, ${stages.join(', ')}; ${unfinished} have not ended, ${unreadable} have a corrupt record`,
  })
}
