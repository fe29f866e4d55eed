import { readFile } from 'node:fs/promises'
import { LonghaulError } from '../../contracts/errors.ts'
import type { ImportedSuite, SuiteFilter } from '../../contracts/suites.types.ts'
import { showFilter } from '../../domain/gates/filter-words.ts'

/**
 * Filters that need tasks to be run were applied when rows were imported, or not at all: the record beside the rows says so.
 * @throws LonghaulError `Config.Invalid` with the filters that were not
 */
export async function requireFiltered({ path, filters }: { path: string; filters: SuiteFilter[] }): Promise<void> {
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
