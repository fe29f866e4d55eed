import type { PlateauRecipe } from '../../contracts/recipe.types.ts'
import { mean } from '../statistics/statistics.ts'

/** A held-out score after an iteration of a stage; iteration 0 is before its first. */
export interface IterationScore {
  iteration: number
  passAt1: number
}

export interface Plateau {
  plateau: boolean
  /** Mean score of the last window minus that of the window before; null if one of them has no evaluation. */
  gain: number | null
  /** Number of evaluations in each window. */
  last: number
  before: number
}

/**
 * Finds out whether scores have stopped rising: compares the mean of the last `window` iterations with the mean of as many before.
 * Means are used because the best of several noisy scores rises by luck alone. There is no plateau before both windows have an
 * evaluation.
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

/** The finding after an iteration, and the figures behind it. */
export interface PlateauRecord extends Plateau {
  schema: 'longhaul.plateau/1'
  run: string
  stage: string
  iteration: number
  rule: PlateauRecipe
  scores: IterationScore[]
}
