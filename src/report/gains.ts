import type { PairedDifference } from '../domain/statistics.ts'

/** What a paired difference shows, as a union: the words and the exit codes of a comparison must not disagree. */
export type Gain = 'gain' | 'loss' | 'not-proven' | 'too-little'

/** Two standard errors, the usual line; below it the data also fits no difference at all. */
const STANDARD_ERRORS = 2

export function judgeGain({ mean, sem, tasks }: Pick<PairedDifference, 'mean' | 'sem' | 'tasks'>): Gain {
  // All differences equal: the spread is unknown rather than nothing.
  if (tasks < 2 || sem === 0) return 'too-little'
  if (Math.abs(mean) <= STANDARD_ERRORS * sem) return 'not-proven'
  return mean > 0 ? 'gain' : 'loss'
}

const WORDS: Record<Gain, string> = {
  gain: 'better, by more than two standard errors',
  loss: 'worse, by more than two standard errors',
  'not-proven': 'not proven: within two standard errors of no difference',
  'too-little': 'too little data to tell',
}

export function sayGain(gain: Gain): string {
  return WORDS[gain]
}
