import type { PairedScore } from './report-data.ts'

/** What a paired difference shows, as a union: the words and the exit codes of a comparison must not disagree. */
export type Gain = 'gain' | 'loss' | 'not-proven' | 'too-little'

/** The interval decides: as long as it holds 0, the data also fits no difference at all. */
export function judgeGain({ interval, tasks }: Pick<PairedScore, 'interval' | 'tasks'>): Gain {
  if (tasks < 2 || interval === null) return 'too-little'
  if (interval.low > 0) return 'gain'
  return interval.high < 0 ? 'loss' : 'not-proven'
}

const WORDS: Record<Gain, string> = {
  gain: 'better: the 95 % interval is above 0',
  loss: 'worse: the 95 % interval is below 0',
  'not-proven': 'not proven: the 95 % interval holds 0',
  'too-little': 'too little data to tell',
}

export function sayGain(gain: Gain): string {
  return WORDS[gain]
}
