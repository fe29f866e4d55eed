/** The text of an episode's purpose, in keys, ids and records: the one place that spells it and reads it back. */
import type { EpisodePurpose, EvaluationPurpose } from './episodes.types.ts'

const EVALUATION = 'eval-'

/** `rft`, a reinforce stage's name, `eval-<evaluation>`. */
export function stageOf(purpose: EpisodePurpose): string {
  switch (purpose.kind) {
    case 'rft':
      return 'rft'
    case 'reinforce':
      return purpose.stage
    case 'evaluation':
      return `${EVALUATION}${evaluationName(purpose)}`
  }
}

/** Reads what `stageOf` wrote, also in records of earlier versions. */
export function purposeOf(stage: string): EpisodePurpose {
  if (stage.startsWith(EVALUATION)) return { kind: 'evaluation', ...evaluationOf(stage.slice(EVALUATION.length)) }
  return stage === 'rft' ? { kind: 'rft' } : { kind: 'reinforce', stage }
}

/** Only reinforcement has iterations, counted from 1; what else is played is its stage's iteration 0. */
export function firstIteration({ kind }: EpisodePurpose): 0 | 1 {
  return kind === 'reinforce' ? 1 : 0
}

/** `base`; `dapo-1-0003` after an iteration, inside a stage; `rl.verified` on a further suite. */
export function evaluationName({ name, iteration, suite }: EvaluationPurpose): string {
  return `${name}${iteration === null ? '' : `-${String(iteration).padStart(4, '0')}`}${suite === null ? '' : `.${suite}`}`
}

/** Reads what `evaluationName` wrote. */
export function evaluationOf(evaluation: string): EvaluationPurpose {
  const [, name = evaluation, iteration, suite = null] = /^([^.]*?)(?:-(\d{4}))?(?:\.(.*))?$/s.exec(evaluation) ?? []
  return { name, iteration: iteration === undefined ? null : Number(iteration), suite }
}

/** Whether an evaluation is of the held-out suite itself, and of no policy in the middle of a stage. */
export function isHeldOut({ name }: { name: string }): boolean {
  const { iteration, suite } = evaluationOf(name)
  return iteration === null && suite === null
}

/** The evaluation that a run is known by; undefined without any. @param evaluations in the order in which they were made */
export function headlineEvaluation<T extends { name: string }>(evaluations: readonly T[]): T | undefined {
  return evaluations.findLast(isHeldOut) ?? evaluations.at(-1)
}

/** The evaluation after the last reinforce stage is called `rl`, for any name of that stage. */
export function evaluatedAfter(stage: string, isLast: boolean): string {
  return isLast ? 'rl' : stage
}

/** How the only evaluation of a run is called whose claim does not say it: an earlier version made that run. */
export const UNNAMED_EVALUATION = 'nightly'
