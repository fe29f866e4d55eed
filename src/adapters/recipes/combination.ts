import type { Recipe } from '../../contracts/recipe.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import type { KeyPath, RecipeProblem } from './explain-issues.ts'

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

/** In seconds. A replay may take as long as the episode; a last turn samples and runs one command. */
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
