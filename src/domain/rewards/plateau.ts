import { mean } from '../statistics/moments.ts'

/** A held-out score after an iteration of a stage; iteration 0 = before its first. */
export interface IterationScore {
  iteration: number
  passAt1: number
}

export interface Plateau {
  plateau: boolean
  /** Mean score of the last window − that of the window before; null while one of them has no evaluation. */
  gain: number | null
  /** Evaluations in each. */
  last: number
  before: number
}

/**
 * Whether scores have stopped rising: the mean over the last `window` iterations against the mean over as many before. Means, not
 * bests: the best of several noisy scores rises by luck alone. Never before both windows have an evaluation.
 */
export function findPlateau({
  scores,
  iteration,
  window,
  minGain,
}: {
  scores: readonly IterationScore[]
  iteration: number
  window: number
  minGain: number
}): Plateau {
  const between = (after: number, to: number): number[] =>
    scores.filter((score) => score.iteration > after && score.iteration <= to).map(({ passAt1 }) => passAt1)
  const last = between(iteration - window, iteration)
  const before = between(iteration - 2 * window, iteration - window)
  const gain = last.length === 0 || before.length === 0 ? null : mean(last) - mean(before)
  return { plateau: gain !== null && gain < minGain, gain, last: last.length, before: before.length }
}
