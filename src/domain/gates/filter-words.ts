import { LonghaulError } from '../../contracts/errors.ts'
import type { DataRecipe } from '../../contracts/recipe.types.ts'
import type { SuiteFilter } from '../../contracts/suites.types.ts'
import { instant } from '../instant.ts'

/** The four filters of arXiv 2508.03501, section 4.1, which leave 7,249 of 21,336 tasks of SWE-rebench. */
export function paperFilters(): SuiteFilter[] {
  return [
    { kind: 'hidden-names' },
    { kind: 'max-files', max: 7 },
    { kind: 'max-lines', max: 499 },
    { kind: 'llm-score', drop: 3 },
    { kind: 'deterministic', trials: 50 },
  ]
}

/** Splits a recipe's `data.filters` into those that rows alone can decide and those that need test runs. */
export function recipeFilters(filters?: DataRecipe['filters']): { fromRows: SuiteFilter[]; fromRuns: SuiteFilter[] } {
  if (filters === undefined) return { fromRows: [], fromRuns: [] }
  const { hiddenNames, maxFiles, maxLines, dropLlmScore, flakyTrials } = filters
  return {
    fromRows: [
      ...(maxFiles === null ? [] : [{ kind: 'max-files' as const, max: maxFiles }]),
      ...(maxLines === null ? [] : [{ kind: 'max-lines' as const, max: maxLines }]),
      ...(dropLlmScore === null ? [] : [{ kind: 'llm-score' as const, drop: dropLlmScore }]),
    ],
    fromRuns: [
      ...(hiddenNames === 'keep' ? [] : [{ kind: 'hidden-names' as const }]),
      ...(flakyTrials === null ? [] : [{ kind: 'deterministic' as const, trials: flakyTrials }]),
    ],
  }
}

/**
 * Parses a filter as users write it, for instance `files<=7` or `created>=2025-01-01`.
 * @throws LonghaulError `Config.Invalid` for anything else
 */
export function readFilter(text: string): SuiteFilter {
  const [, name = '', operator = '', value = ''] = /^([a-z-]+)(>=|<=|!=|<)?(.*)$/.exec(text.trim()) ?? []
  const filter = readParts(`${name}${operator}`, value.trim())
  if (filter !== null) return filter
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected a filter: created>=DATE, created<DATE, files<=N, lines<=N, llm-score!=X, hidden-names or deterministic>=N`,
    details: { filter: text },
  })
}

export function showFilter(filter: SuiteFilter): string {
  switch (filter.kind) {
    case 'created':
      return [filter.from && `created>=${filter.from}`, filter.before && `created<${filter.before}`]
        .filter((part) => part !== null)
        .join(' ')
    case 'ids':
      return `ids (${filter.ids.length})`
    case 'max-files':
      return `files<=${filter.max}`
    case 'max-lines':
      return `lines<=${filter.max}`
    case 'llm-score':
      return `llm-score!=${filter.drop}`
    case 'hidden-names':
      return 'hidden-names'
    case 'deterministic':
      return `deterministic>=${filter.trials}`
  }
}

function readParts(key: string, value: string): SuiteFilter | null {
  const isDate = instant(value) !== null
  const isCount = /^[1-9]\d{0,8}$/.test(value)
  switch (key) {
    case 'created>=':
      return isDate ? { kind: 'created', from: value, before: null } : null
    case 'created<':
      return isDate ? { kind: 'created', from: null, before: value } : null
    case 'files<=':
      return isCount ? { kind: 'max-files', max: Number(value) } : null
    case 'lines<=':
      return isCount ? { kind: 'max-lines', max: Number(value) } : null
    case 'llm-score!=':
      return /^-?\d+(\.\d+)?$/.test(value) ? { kind: 'llm-score', drop: Number(value) } : null
    case 'hidden-names':
      return value === '' ? { kind: 'hidden-names' } : null
    case 'deterministic>=':
      return isCount ? { kind: 'deterministic', trials: Number(value) } : null
    default:
      return null
  }
}
