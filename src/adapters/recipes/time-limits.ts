/** Times of a recipe that would outlast the activity in which they run. `docs/timeouts.md` has the sums. */
import { problem, type Settings } from './combination.ts'
import type { KeyPath, RecipeProblem } from './recipe-problem.ts'

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
