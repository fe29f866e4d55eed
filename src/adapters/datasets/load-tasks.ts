import { assertNever, LonghaulError } from '../../contracts/errors.ts'
import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { RowsFile, ImportedSuite, SuiteFilter } from '../../contracts/suites.types.ts'
import { NEWEST_SPLIT, type SuiteSource, type Task } from '../../contracts/tasks.types.ts'
import { recipeFilters, showFilter } from '../../domain/gates/filter-words.ts'
import { applyFilters } from '../../domain/gates/suite-filters.ts'
import { hasParser } from '../../grading/log-profiles.ts'
import { idKey, metaOf } from './check-rows.ts'
import { normalizeRow } from './normalize-row.ts'
import type { PublishedSource, PublishedSuite, SuitePlaces } from './published-suite.ts'
import { readRowsFile, readTaskRows } from './read-source.ts'
import { synthesizeSuite } from './synthetic/synthesize.ts'
import { readFile } from 'node:fs/promises'

/**
 * Loads the tasks that a recipe's suite source names, in order.
 * @param filters apply to published rows; synthesised tasks lack the fields that filters read
 * @throws LonghaulError `Task.Invalid` for a row that could not be graded exactly; `Config.Invalid` for a source or harness that this
 * version cannot run, and for rows that were not imported with the filters that need test runs
 */
export async function loadTasks(
  source: SuiteSource,
  filters?: DataRecipe['filters'],
  places: SuitePlaces = HERE,
): Promise<Task[]> {
  switch (source.kind) {
    case 'synthetic':
      return synthesizeSuite(source).map(({ row }) => normalizeRow(row))
    case 'rows':
      return loadRows({ ...source, path: places.findFile(source.path) }, filters)
    case 'hub':
      return (await loadPublished(await pinned(source, places), filters, places)).tasks
    case 'file':
      return (await loadPublished(source, filters, places)).tasks
    default:
      return assertNever(source)
  }
}

/** Resolves `newest` again on every call, for commands without a run. */
async function pinned(
  source: Extract<SuiteSource, { kind: 'hub' }>,
  { hubUrl }: SuitePlaces,
): Promise<Extract<PublishedSource, { kind: 'hub' }>> {
  const { dataset, revision, split } = source
  if (split !== NEWEST_SPLIT && revision !== null) return { ...source, revision }
  const { findNewestSplit } = await import('./newest-split.ts')
  const found = await findNewestSplit({ dataset, revision, hubUrl })
  return { ...source, revision: found.revision, split: found.split }
}

/** The same, together with the file of rows if there is one. */
export async function loadTasksAndFile(
  source: SuiteSource,
  filters?: DataRecipe['filters'],
  places: SuitePlaces = HERE,
): Promise<{ tasks: Task[]; file: RowsFile | null; source: SuiteSource }> {
  const read = source.kind === 'hub' ? await pinned(source, places) : source
  const tasks = await loadTasks(read, filters, places)
  const file = source.kind === 'rows' ? await readRowsFile(places.findFile(source.path), tasks) : null
  return { tasks, file, source: read }
}

/** The public hub, and paths relative to this process. */
const HERE: SuitePlaces = { hubUrl: null, findFile: (path) => path }

/** Loads a published data set with its record and rows. @throws LonghaulError as `loadTasks` */
export async function loadPublished(
  source: PublishedSource,
  filters: DataRecipe['filters'] | undefined,
  places: SuitePlaces,
): Promise<PublishedSuite> {
  // Loaded lazily, because only some recipes need the Parquet and hub readers.
  const { importPublished } = await import('./published-suite.ts')
  const published = await importPublished(source, filters, places)
  published.tasks.forEach(runnable)
  return published
}

/** The limit applies after the filters. */
async function loadRows(
  { path, limit }: Extract<SuiteSource, { kind: 'rows' }>,
  filters: DataRecipe['filters'] | undefined,
): Promise<Task[]> {
  const { fromRows, fromRuns } = recipeFilters(filters)
  await requireFiltered({ path, filters: fromRuns })
  const rows = await readTaskRows(path)
  const wanted = fromRows.length === 0 ? rows.slice(0, limit ?? rows.length) : rows
  const read = wanted.map(({ row, label }) => ({ task: normalizeRow(row, { label }), meta: metaOf(row), label }))
  requireDistinct(path, read)
  const { kept } = applyFilters(read, fromRows)
  return kept.slice(0, limit ?? kept.length).map(({ task }) => runnable(task))
}

/** Refuses repeated ids. A repeated id would be one task with two contents, and two groups of episodes with one name. */
export function requireDistinct(path: string, read: readonly { task: Task; label: string }[]): void {
  const places = new Map<string, string>()
  for (const { task, label } of read) {
    const first = places.get(idKey(task.taskId))
    if (first !== undefined) {
      throw new LonghaulError({
        code: 'Task.Invalid',
        message: `Expected a unique id, got that of ${first}: leave one of the two rows out`,
        details: { file: path, row: label, task: task.taskId },
      })
    }
    places.set(idKey(task.taskId), label)
  }
}

/** Refuses a parser name that upstream knows but this version does not: the tests could run, but Longhaul could not parse their log. */
function runnable(task: Task): Task {
  const { taskId, gradingProfile, installConfig } = task
  if (hasParser(gradingProfile, installConfig.logParser)) return task
  throw new LonghaulError({
    code: 'Config.Invalid',
    message:
      'Expected tasks with a log parser that this version has; `longhaul tasks import` counts the others as unsupported',
    details: { task: taskId, profile: gradingProfile, parser: installConfig.logParser },
  })
}

/**
 * Requires that filters which need test runs were applied when the rows were imported, as the record beside the rows states.
 * @throws LonghaulError `Config.Invalid` with the filters that were not applied
 */
async function requireFiltered({ path, filters }: { path: string; filters: SuiteFilter[] }): Promise<void> {
  if (filters.length === 0) return
  const applied = await readApplied(`${path}.suite.json`)
  const missing = filters.filter((filter) => !applied.some((other) => isAsStrict(other, filter)))
  if (missing.length === 0) return
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected rows imported with ${missing.map(showFilter).join(' and ')}, which data.filters asks for: longhaul tasks import … --filter … --evidence FILE`,
    details: { file: path },
  })
}

function isAsStrict(applied: SuiteFilter, wanted: SuiteFilter): boolean {
  if (applied.kind === 'deterministic' && wanted.kind === 'deterministic') return applied.trials >= wanted.trials
  return applied.kind === wanted.kind
}

async function readApplied(path: string): Promise<SuiteFilter[]> {
  try {
    const { filters } = JSON.parse(await readFile(path, 'utf8')) as ImportedSuite
    return filters.map(({ filter }) => filter)
  } catch {
    return []
  }
}
