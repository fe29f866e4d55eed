import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { ImportedSuite, RowsFile, SuiteOrigin } from '../../contracts/suites.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import { recipeFilters, showFilter } from './filter-words.ts'

export interface OriginInput {
  source: SuiteSource
  /** The record of the import, if the suite was imported from a published data set. */
  imported: ImportedSuite | null
  /** The file that was read, if the source is a file of rows; null if unknown. */
  file: RowsFile | null
  /** The recipe's own filters, if they were applied to rows. */
  curation: DataRecipe['filters'] | undefined
}

/** Describes data set, revision and filters of a suite in a few words. It contains no local paths: a file is identified by its name
 *  and hash. */
export function originOf({ source, imported, file, curation }: OriginInput): SuiteOrigin {
  const schema = 'longhaul.suite-origin/1'
  switch (source.kind) {
    case 'synthetic':
      return {
        schema,
        dataset: `synthetic ${source.family}`,
        revision: `seed ${source.seed}`,
        split: source.split,
        files: [],
        filters: [],
      }
    case 'hub':
    case 'file':
      return imported === null
        ? { schema, ...nameOf(source), files: [], filters: source.filters.map((filter) => ({ filter, kept: null })) }
        : { schema, ...nameOf(imported.source), files: filesOf(imported), filters: filtersOf(imported) }
    case 'rows': {
      const before = file?.imported ?? null
      const files = file === null ? [] : [{ name: file.name, sha256: file.sha256 }]
      const filters = [
        ...(before === null ? [] : filtersOf(before)),
        ...recipeFilters(curation).fromRows.map((filter) => ({ filter: showFilter(filter), kept: null })),
      ]
      const named = before?.source ?? { kind: 'file' as const, path: source.path }
      return { schema, ...nameOf(named), files, filters }
    }
  }
}

type Named = Pick<SuiteOrigin, 'dataset' | 'revision' | 'split'>

function nameOf(
  source: { kind: 'file'; path: string } | { kind: 'hub'; dataset: string; revision: string | null; split: string },
): Named {
  if (source.kind === 'file') return { dataset: baseName(source.path), revision: null, split: null }
  const { dataset, revision, split } = source
  return { dataset, revision, split }
}

function filesOf({ files }: ImportedSuite): SuiteOrigin['files'] {
  return files.map(({ path, id }) => ({ name: baseName(path), sha256: id }))
}

function filtersOf({ filters }: ImportedSuite): SuiteOrigin['filters'] {
  return filters.map(({ filter, kept }) => ({ filter: showFilter(filter), kept }))
}

function baseName(path: string): string {
  return path.split(/[/\\]/).at(-1) ?? path
}
