import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import type { KeyPath, RecipeProblem } from './recipe-problem.ts'

/** A recipe before it has its file's name. */
export type Settings = Omit<Recipe, 'name'>

export function problem(path: KeyPath, message: string, hint: string): RecipeProblem {
  return { rule: 'combination', path, message, hint, at: 'value' }
}

/** A first turn that fills the context leaves nothing to act in. */
export function contextRoom(
  path: KeyPath,
  { context }: { context: number },
  maxTokensPerTurn: number,
): RecipeProblem[] {
  if (maxTokensPerTurn < context) return []
  return [
    problem(
      [...path, 'context'],
      `expected more than scaffold.limits.maxTokensPerTurn ${maxTokensPerTurn}, got ${context}`,
      'the first turn would already fill the context',
    ),
  ]
}

/** Null where only reading the rows tells. */
export function suiteSize(source: SuiteSource): number | null {
  if (source.kind === 'synthetic') return source.count
  return source.limit
}
