import type { Interval } from './bootstrap.ts'
import { betaQuantile, normalQuantile, logGamma } from './special-functions.ts'

interface Proportion {
  successes: number
  trials: number
  /** Share of such intervals that contain the true rate, such as 0.95. */
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
  // At the extremes the bound is exactly 0 or 1, apart from rounding.
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

/** Number of tasks that only one of two policies resolved, with one attempt each. The other tasks say nothing about a difference. */
interface Discordant {
  onlyBefore: number
  onlyAfter: number
}

export interface McNemar extends Discordant {
  /** Two-sided: the probability of a split at least this uneven if both were equally good. */
  exact: number
  /** Counts the observed split half, which is less conservative and still close to its level (Fagerland et al. 2013). */
  midP: number
}

/** Exact test on the discordant pairs: the smaller count is Binomial(n, ½) if neither policy is better. */
export function testMcNemar({ onlyBefore, onlyAfter }: Discordant): McNemar {
  const pairs = onlyBefore + onlyAfter
  const smaller = Math.min(onlyBefore, onlyAfter)
  let tail = 0
  for (let count = 0; count <= smaller; count++) tail += chanceOf(count, pairs)
  const exact = Math.min(1, 2 * tail)
  const midP = Math.min(1, 2 * tail - chanceOf(smaller, pairs))
  return { onlyBefore, onlyAfter, exact, midP }
}

/** C(pairs, count) / 2^pairs, computed with logarithms because the binomials themselves overflow. */
function chanceOf(count: number, pairs: number): number {
  const logBinomial = logGamma(pairs + 1) - logGamma(count + 1) - logGamma(pairs - count + 1)
  return Math.exp(logBinomial - pairs * Math.LN2)
}
