import type { Interval } from './bootstrap.ts'
import { betaQuantile, normalQuantile } from './special-functions.ts'

export interface Proportion {
  successes: number
  trials: number
  /** Share of such intervals that hold the true rate, such as 0.95. */
  level: number
}

/** Score interval of a rate: keeps its level for few trials and for rates near 0 and 1.  @see Wilson, JASA 22 (1927) */
export function wilsonInterval({ successes, trials, level }: Proportion): Interval {
  if (trials === 0) return { low: 0, high: 1 }
  const z = normalQuantile(0.5 + level / 2)
  const rate = successes / trials
  const widened = 1 + (z * z) / trials
  const centre = (rate + (z * z) / (2 * trials)) / widened
  const half = (z / widened) * Math.sqrt((rate * (1 - rate)) / trials + (z * z) / (4 * trials * trials))
  // At the ends it is 0 or 1 exactly, up to rounding.
  return { low: successes === 0 ? 0 : centre - half, high: successes === trials ? 1 : centre + half }
}

/** Exact interval of a rate: never covers less than its level.  @see Clopper and Pearson, Biometrika 26 (1934) */
export function exactInterval({ successes, trials, level }: Proportion): Interval {
  const tail = (1 - level) / 2
  const failures = trials - successes
  return {
    low: successes === 0 ? 0 : betaQuantile({ probability: tail, a: successes, b: failures + 1 }),
    high: failures === 0 ? 1 : betaQuantile({ probability: 1 - tail, a: successes + 1, b: failures }),
  }
}
