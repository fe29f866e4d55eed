import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import type { KeyPath, RecipeProblem } from './explain-issues.ts'

/** A recipe without its name, which its file provides. */
export type Settings = Omit<Recipe, 'name'>

export function problem(path: KeyPath, message: string, hint: string): RecipeProblem {
  return { rule: 'combination', path, message, hint, at: 'value' }
}

/** Requires room beyond the first turn, which could otherwise fill the context. */
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

/** Returns null if the size is only known after reading the rows. */
export function suiteSize(source: SuiteSource): number | null {
  if (source.kind === 'synthetic') return source.count
  return source.limit
}

/** In seconds. A replay may take as long as the episode. A last turn samples and runs one command. */
export const MOST_S = { episode: 4 * 3_600, command: 1_800, trainingJob: 6 * 86_400 } as const

export function timeLimits({ scaffold, rollout, trainer }: Settings): RecipeProblem[] {
  return [
    ...atMost(['scaffold', 'limits', 'commandTimeoutS'], scaffold.limits.commandTimeoutS, MOST_S.command),
    ...atMost(['rollout', 'episodeTimeoutS'], rollout.episodeTimeoutS, MOST_S.episode),
    ...atMost(['trainer', 'timeoutS'], trainer.timeoutS, MOST_S.trainingJob),
  ]
}

function atMost(path: KeyPath, seconds: number, most: number): RecipeProblem[] {
  if (seconds <= most) return []
  const message = `expected at most ${most} s, got ${seconds}`
  return [problem(path, message, 'the activity that does this work is ended soon after; docs/timeouts.md says by what')]
}
