import { logGamma } from './special-functions.ts'

/** Tasks that only one of two policies resolved, one attempt each. The others say nothing about a difference. */
export interface Discordant {
  onlyBefore: number
  onlyAfter: number
}

export interface McNemar extends Discordant {
  /** Two-sided: the chance of a split at least this uneven if both were equally good. */
  exact: number
  /** Counts the observed split half: less conservative, still close to its level (Fagerland et al. 2013). */
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

/** C(pairs, count) / 2^pairs, by logarithms: the binomials themselves overflow. */
function chanceOf(count: number, pairs: number): number {
  const logBinomial = logGamma(pairs + 1) - logGamma(count + 1) - logGamma(pairs - count + 1)
  return Math.exp(logBinomial - pairs * Math.LN2)
}
