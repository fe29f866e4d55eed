import { LonghaulError } from '../../contracts/errors.ts'

/** `pass@1.lower>=0.35`: the bound of the interval, never the mean, so that luck passes no gate. */
export interface Threshold {
  bound: 'lower' | 'upper'
  atLeast: number
}

export interface ScoredInterval {
  mean: number
  low: number
  high: number
  /** Where the bounds come from. */
  source: string
}

/** @throws LonghaulError `Config.Invalid` */
export function parseThreshold(text: string): Threshold {
  const found = /^pass@1\.(lower|upper)\s*>=\s*(0|1|0?\.\d+|1\.0+)$/.exec(text.trim())
  if (found === null) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `Expected --threshold 'pass@1.lower>=0.35', a bound between 0 and 1, got ${JSON.stringify(text)}`,
    })
  }
  return { bound: found[1] as Threshold['bound'], atLeast: Number(found[2]) }
}

/** One line that holds both numbers and the rule. */
export function judgeThreshold(
  { bound, atLeast }: Threshold,
  { mean, low, high, source }: ScoredInterval,
): { met: boolean; verdict: string } {
  const value = bound === 'lower' ? low : high
  const met = value >= atLeast
  const verdict = `threshold ${met ? 'met' : 'missed'}: pass@1.${bound} ${value.toFixed(3)} ${met ? '≥' : '<'} ${atLeast} (mean ${mean.toFixed(3)}, 95 % interval ${low.toFixed(3)} to ${high.toFixed(3)}, ${source})`
  return { met, verdict }
}
