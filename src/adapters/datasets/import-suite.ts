import type { FilterClass, ImportedSuite, ImportSource, SuiteFilter } from '../../contracts/suites.types.ts'
import { applyFilters, classifyTasks, type Evidence } from '../../domain/gates/suite-filters.ts'
import { hasParser } from '../../grading/log-profiles.ts'
import { canonicalHash } from '../../platform/hash.ts'
import type { HubPlace } from '../hub/requests.ts'
import { type AcceptedRow, checkRows } from './check-rows.ts'
import { type PinProgress, pinRows } from './pin-rows.ts'
import { type ReadProgress, readSource, type SourceRows } from './read-source.ts'

export interface ImportInput {
  source: ImportSource
  filters?: readonly SuiteFilter[]
  evidence?: Evidence
  /** Address of the hub; null for the public one. */
  hubUrl?: string | null
  /** For a data set that the hub does not show to everyone. @default none is sent */
  token?: HubPlace['token']
  /** Called while the source is read. */
  onProgress?: (progress: ReadProgress) => void
  /** Fetches the files that kept rows name by address, and writes their hashes into the rows. @default rows stay as published */
  pinFiles?: { signal: AbortSignal; onProgress?: (progress: PinProgress) => void }
}

/**
 * Reads a source, checks every row and filters those that can be graded exactly. Refused rows are part of the result, and the caller
 * decides whether to accept a suite without them.
 * @throws LonghaulError for a source that cannot be read
 */
export async function importSuite(
  input: ImportInput,
): Promise<{ suite: ImportedSuite; kept: AcceptedRow[]; classes: FilterClass[]; unknownIds: string[] }> {
  const filters = input.filters ?? []
  const read = await readSource(input.source, {
    hubUrl: input.hubUrl ?? null,
    token: input.token,
    onProgress: input.onProgress,
  })
  const { accepted, refused } = checkRows(read.rows)
  const { kept: published, counts } = applyFilters(accepted, filters, input.evidence)
  const kept = input.pinFiles === undefined ? published : await pinRows(published, input.pinFiles)
  const tasks = kept.map(({ task }) => ({ taskId: task.taskId, rowHash: task.rowHash }))
  const suite: ImportedSuite = {
    schema: 'longhaul.imported-suite/1',
    hash: canonicalHash([identity(input.source, read), counts.map(({ filter }) => filter), tasks]),
    source: input.source,
    files: read.files,
    counts: { rows: read.rows.length, refused: refused.length, accepted: accepted.length, kept: kept.length },
    filters: counts,
    profiles: countProfiles(kept),
    unsupported: kept.filter(({ task }) => !hasParser(task.gradingProfile, task.installConfig.logParser)).length,
    refused,
    tasks,
  }
  const known = new Set(accepted.map(({ task }) => task.taskId))
  const wanted = new Set(filters.flatMap((filter) => (filter.kind === 'ids' ? filter.ids : [])))
  const unknownIds = [...wanted].filter((id) => !known.has(id))
  return { suite, kept, classes: classifyTasks(accepted, filters, input.evidence), unknownIds }
}

function identity(source: ImportSource, { files }: SourceRows): unknown {
  return source.kind === 'hub' ? source : files
}

function countProfiles(kept: readonly AcceptedRow[]): Record<string, number> {
  const profiles: Record<string, number> = {}
  for (const { task } of kept) profiles[task.gradingProfile] = (profiles[task.gradingProfile] ?? 0) + 1
  return profiles
}
