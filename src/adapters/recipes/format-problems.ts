import { type RecipeProblem, showPath, type TextPosition } from './recipe-problem.ts'
import type { RecipeText } from './recipe-text.ts'

export interface FormatInput {
  problems: readonly (RecipeProblem & { position?: TextPosition })[]
  file: RecipeText
  label: string
  overrides: Record<string, unknown>
}

/**
 * ```
 * recipes/nightly.yaml:14:9 error recipe/range evaluate.attempts: expected an integer ≥ 1, got 0
 *   14 |   attempts: 0
 *      hint: k: episodes per task
 * ```
 */
export function formatProblems({ problems, file, label, overrides }: FormatInput): string {
  const located = problems.map((problem) => ({
    problem,
    position: problem.position ?? (isIn(overrides, problem.path) ? null : file.locate(problem.path, problem.at)),
  }))
  const sorted = located.toSorted((a, b) => (a.position?.line ?? 0) - (b.position?.line ?? 0))
  const texts = sorted.map(({ problem, position }) => {
    const place =
      position === null ? whereElse(problem, label, overrides) : `${label}:${position.line}:${position.column}`
    const key = showPath(problem.path)
    const head = `${place} error recipe/${problem.rule} ${key === '' ? '' : `${key}: `}${problem.message}`
    const line = position === null ? undefined : file.lines[position.line - 1]
    return [
      head,
      ...(position === null || line === undefined ? [] : [`  ${position.line} | ${line.trimEnd()}`]),
      ...(problem.hint === null ? [] : [`     hint: ${problem.hint}`]),
    ].join('\n')
  })
  const count = `${problems.length} problem${problems.length === 1 ? '' : 's'}`
  return `The recipe has ${count}\n${texts.join('\n')}`
}

function whereElse({ path }: RecipeProblem, label: string, overrides: Record<string, unknown>): string {
  return isIn(overrides, path) ? 'overrides' : `${label}:1:1`
}

/** True where the overrides themselves said it. */
function isIn(overrides: Record<string, unknown>, path: RecipeProblem['path']): boolean {
  let here: unknown = overrides
  for (const key of path) {
    if (typeof here !== 'object' || here === null || !Object.hasOwn(here, key)) return false
    here = (here as Record<string | number, unknown>)[key]
  }
  return path.length > 0
}
