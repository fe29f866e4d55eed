import { readFile } from 'node:fs/promises'
import { LonghaulError, isLonghaulError } from '../../contracts/errors.ts'
import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { ImportSource, ImportedSuite, SuiteFilter, TaskEvidence } from '../../contracts/suites.types.ts'
import type { SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { readFilter, recipeFilters, showFilter } from '../../domain/gates/filter-words.ts'
import { canonicalHash, sha256Hex } from '../../platform/hash.ts'
import { explainUnreadable, readInputFile } from '../../platform/input-file.ts'
import type { AcceptedRow } from './check-rows.ts'
import { importSuite } from './import-suite.ts'
import { readRows } from './read-source.ts'

/** A pinned source: the commit and the split of a hub's data set are known. */
export type PublishedSource =
  | Extract<SuiteSource, { kind: 'file' }>
  | (Extract<SuiteSource, { kind: 'hub' }> & { revision: string })

export interface SuitePlaces {
  /** Another hub with the same layout; null for the public one. */
  hubUrl: string | null
  /** Maps a file that a recipe names to its path on this machine. */
  findFile: (path: string) => string
}

export interface PublishedSuite {
  tasks: Task[]
  record: ImportedSuite
  rows: AcceptedRow[]
}

/** Increase it when the rules for checking rows change, so that no stored import is taken for a new one. */
const IMPORT_VERSION = 1

/**
 * Identifies an import before anything is fetched: a pinned source, its filters and the evidence that they read determine the result.
 * @returns null for a file, whose content is known only after reading it
 */
export async function identityOfImport(
  source: PublishedSource,
  filters: DataRecipe['filters'] | undefined,
  { findFile }: SuitePlaces,
): Promise<string | null> {
  if (source.kind === 'file') return null
  const { evidence, ...pinned } = source
  const evidenceSha256 = evidence === null ? null : await hashFile(findFile(evidence))
  return canonicalHash([IMPORT_VERSION, pinned, filtersOf(source, filters), evidenceSha256])
}

/**
 * Imports what a recipe selects of a published data set: checks every row, applies the source's filters and then the recipe's curation,
 * and cuts to the source's limit.
 * @throws LonghaulError `Config.Invalid` for a filter that cannot be applied, before anything is fetched; `Task.Invalid` for refused
 * rows unless the source excludes them; `Suite.Unreachable` if the hub does not answer
 */
export async function importPublished(
  source: PublishedSource,
  filters: DataRecipe['filters'] | undefined,
  { hubUrl, findFile }: SuitePlaces,
): Promise<PublishedSuite> {
  const chain = filtersOf(source, filters)
  requireEvidence(source, chain)
  const evidence = source.evidence === null ? new Map() : await readEvidence(findFile(source.evidence))
  const from: ImportSource =
    source.kind === 'file'
      ? { kind: 'file', path: findFile(source.path) }
      : { kind: 'hub', dataset: source.dataset, revision: source.revision, split: source.split }
  const { suite, kept } = await reached(from, hubUrl, () =>
    importSuite({ source: from, filters: chain, evidence, hubUrl }),
  )
  refuseRows(source, suite)
  const rows = kept.slice(0, source.limit ?? kept.length)
  return { tasks: rows.map(({ task }) => task), record: suite, rows }
}

function filtersOf(source: PublishedSource, curation: DataRecipe['filters'] | undefined): SuiteFilter[] {
  const { fromRows, fromRuns } = recipeFilters(curation)
  const ids: SuiteFilter[] = source.ids === null ? [] : [{ kind: 'ids', ids: source.ids }]
  return [...ids, ...source.filters.map(readFilter), ...fromRows, ...fromRuns]
}

/** Checked first, so that a long import does not fail at its end for a reason that was known before. */
function requireEvidence({ evidence }: PublishedSource, chain: readonly SuiteFilter[]): void {
  const [first] = chain.filter(({ kind }) => kind === 'hidden-names' || kind === 'deterministic')
  if (first === undefined || evidence !== null) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected evidence beside the filter ${showFilter(first)}, which reads what running the tasks showed: name the file in the source's evidence (longhaul tasks gate … --evidence FILE writes one), or leave the filter out`,
  })
}

function refuseRows({ refused: onRefused }: PublishedSource, { refused, counts }: ImportedSuite): void {
  const [first] = refused
  if (first === undefined || onRefused === 'exclude') return
  throw new LonghaulError({
    code: 'Task.Invalid',
    message: `Expected every row to be gradable, but ${counts.refused} of ${counts.rows} are not, the first at ${first.at}: ${first.reason}. refused: exclude leaves them out and lists them in the suite's record`,
    details: { task: first.taskId, column: first.column },
  })
}

/** Explains an unreachable hub and how to continue without it. */
async function reached<T>(source: ImportSource, hubUrl: string | null, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    if (source.kind !== 'hub' || !isLonghaulError(cause) || cause.code !== 'Artifact.Unavailable') throw cause
    const { dataset, revision, split } = source
    throw new LonghaulError({
      code: 'Suite.Unreachable',
      message: `Expected to read ${dataset} from ${hubUrl ?? 'the hub'}, which does not answer: ${cause.message}. Name a hub that this machine reaches in LONGHAUL_HUB_URL, or fetch the rows where there is a network (longhaul tasks import ${dataset} --revision ${revision} --split ${split} --output rows.jsonl) and use kind: file`,
      cause,
    })
  }
}

async function hashFile(path: string): Promise<string> {
  try {
    return sha256Hex(await readFile(path))
  } catch (cause) {
    throw explainUnreadable({ path, what: 'a file of evidence' }, cause)
  }
}

/**
 * Reads the results of running tasks, one JSON object per line.
 * @throws LonghaulError `Config.NotFound` without the file, `Task.Invalid` with the invalid line
 */
export async function readEvidence(path: string): Promise<Map<string, TaskEvidence>> {
  const evidence = new Map<string, TaskEvidence>()
  for (const { row, label } of await readRows(path, 'a file of evidence')) {
    if (!isEvidence(row) || evidence.has(row.instance_id)) {
      throw new LonghaulError({
        code: 'Task.Invalid',
        message: 'Expected {instance_id, emptyLog?, goldRuns?, gold?} of a task that has no other line',
        details: { file: path, row: label },
      })
    }
    evidence.set(row.instance_id, row)
  }
  return evidence
}

/** Reads instance ids, one per line; blank lines and lines that begin with # are skipped. */
export async function readIds(path: string): Promise<string[]> {
  const text = await readInputFile({ path, what: 'a file of instance ids' })
  const ids = text.split(/\r?\n/).map((line) => line.trim())
  return ids.filter((line) => line !== '' && !line.startsWith('#'))
}

function isEvidence(value: unknown): value is TaskEvidence {
  if (typeof value !== 'object' || value === null) return false
  const { instance_id: id, emptyLog, goldRuns, gold } = value as Record<string, unknown>
  const isLog = emptyLog === undefined || typeof emptyLog === 'string'
  const isRuns = goldRuns === undefined || (Array.isArray(goldRuns) && goldRuns.every(isStatuses))
  return typeof id === 'string' && isLog && isRuns && (gold === undefined || isSummary(gold))
}

function isSummary(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { runs, flipping } = value as Record<string, unknown>
  return Number.isInteger(runs) && Array.isArray(flipping) && flipping.every((test) => typeof test === 'string')
}

function isStatuses(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.values(value).every((item) => typeof item === 'string')
}
