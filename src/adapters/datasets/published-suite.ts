import { readFile } from 'node:fs/promises'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { ImportedSuite, ImportSource, SuiteFilter } from '../../contracts/suites.types.ts'
import type { SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { readFilter, recipeFilters, showFilter } from '../../domain/gates/filter-words.ts'
import { canonicalHash } from '../../platform/hash.ts'
import { explainUnreadable } from '../../platform/input-file.ts'
import type { AcceptedRow } from './check-rows.ts'
import { importSuite } from './import-suite.ts'
import { readEvidence } from './read-evidence.ts'
import { sha256Hex } from '../../platform/hash.ts'

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
