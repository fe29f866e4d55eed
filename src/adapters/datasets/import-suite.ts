import type { FilterClass, ImportSource, ImportedSuite, SuiteFilter } from '../../contracts/suites.types.ts'
import { type Evidence, applyFilters, classifyTasks } from '../../domain/gates/suite-filters.ts'
import { hasParser } from '../../grading/log-profiles.ts'
import { canonicalHash, sha256Hex } from '../../platform/hash.ts'
import type { HubPlace } from '../hub/requests.ts'
import { type AcceptedRow, checkRows } from './check-rows.ts'
import { type ReadProgress, type SourceRows, readSource } from './read-source.ts'
import { fetchAssets } from './fetch-asset.ts'
import { normalizeRow } from './normalize-row.ts'

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

/** How far the fetching of files is that rows name by address. */
export interface PinProgress {
  rows: number
  /** Rows with such files. */
  of: number
}

interface PinRowsOptions {
  signal: AbortSignal
  onProgress?: ((progress: PinProgress) => void) | undefined
}

/**
 * Rows with the SHA-256 and the size of each file that they name by address. The hash of such a row changes with its files, so new
 * bytes make another task, which is gated again; all other rows stay as published.
 * @throws LonghaulError `Grading.Failed` for a file that cannot be fetched
 */
async function pinRows(rows: readonly AcceptedRow[], { signal, onProgress }: PinRowsOptions): Promise<AcceptedRow[]> {
  const of = rows.filter(namesFiles).length
  let done = 0
  const pinned: AcceptedRow[] = []
  for (const row of rows) {
    if (!namesFiles(row)) {
      pinned.push(row)
      continue
    }
    onProgress?.({ rows: done, of })
    pinned.push(await pinRow(row, signal))
    done += 1
  }
  return pinned
}

function namesFiles({ task }: AcceptedRow): boolean {
  return task.harness?.assets?.some(({ url }) => url !== null) ?? false
}

async function pinRow({ task, row, meta }: AcceptedRow, signal: AbortSignal): Promise<AcceptedRow> {
  const files = await fetchAssets(task.harness?.assets ?? [], signal)
  const pins = new Map(
    files.map(({ path, url, bytes }) => [`${path} ${url}`, { sha256: sha256Hex(bytes), bytes: bytes.byteLength }]),
  )
  const pin = (entry: unknown): unknown => {
    const { path, url } = (entry ?? {}) as { path?: unknown; url?: unknown }
    const found = pins.get(`${String(path)} ${String(url)}`)
    return found === undefined ? entry : { ...(entry as object), ...found }
  }
  const column = row['image_assets']
  const declared = typeof column === 'string' ? (JSON.parse(column) as object) : (column as object)
  const changed = Object.fromEntries(
    Object.entries(declared).map(([kind, entries]) => [kind, Array.isArray(entries) ? entries.map(pin) : entries]),
  )
  const next = { ...row, image_assets: typeof column === 'string' ? JSON.stringify(changed) : changed }
  return { task: normalizeRow(next), row: next, meta }
}
