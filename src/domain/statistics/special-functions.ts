/** Functions for closed-form intervals that JavaScript lacks. Compared with SciPy to 1e-9 in `reference-statistics.test.ts`. */

/** Lanczos, g = 7, nine terms: about 15 digits for x > 0. */
const LANCZOS = [
  0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059,
  12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
]

/** Natural logarithm of Γ(x), x > 0. */
export function logGamma(x: number): number {
  const shifted = x - 1
  const [first = 0, ...rest] = LANCZOS
  const series = rest.reduce((sum, term, index) => sum + term / (shifted + index + 1), first)
  const base = shifted + 7.5
  return 0.5 * Math.log(2 * Math.PI) + (shifted + 0.5) * Math.log(base) - base + Math.log(series)
}

/** Smallest number that can still be divided by. It keeps the continued fraction from dividing by zero. */
const TINY = 1e-300
const CONVERGED = 1e-16
/** It converges in about √max(a, b) terms, so this suffices for a hundred million. */
const MOST_TERMS = 20_000

/** I_x(a, b): the distribution function of Beta(a, b), for a, b > 0 and 0 ≤ x ≤ 1. */
export function regularizedBeta({ x, a, b }: { x: number; a: number; b: number }): number {
  if (x <= 0) return 0
  if (x >= 1) return 1
  // The fraction converges quickly on this side only; the other side follows by symmetry.
  if (x > (a + 1) / (a + b + 2)) return 1 - regularizedBeta({ x: 1 - x, a: b, b: a })
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a
  return front * betaFraction(x, a, b)
}

/** Continued fraction of the incomplete beta function, by Lentz's method. */
function betaFraction(x: number, a: number, b: number): number {
  const away = (value: number): number => (Math.abs(value) < TINY ? TINY : value)
  let c = 1
  let d = 1 / away(1 - ((a + b) * x) / (a + 1))
  let fraction = d
  for (let m = 1; m <= MOST_TERMS; m++) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m))
    d = 1 / away(1 + even * d)
    c = away(1 + even / c)
    fraction *= d * c
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1))
    d = 1 / away(1 + odd * d)
    c = away(1 + odd / c)
    fraction *= d * c
    if (Math.abs(d * c - 1) < CONVERGED) break
  }
  return fraction
}

/** The x with I_x(a, b) = probability. */
export function betaQuantile({ probability, a, b }: { probability: number; a: number; b: number }): number {
  return solveRising((x) => regularizedBeta({ x, a, b }) - probability, 0, 1)
}

/** The t that a Student variable stays below with this probability, 0 < probability < 1. */
export function studentQuantile({ probability, freedom }: { probability: number; freedom: number }): number {
  if (probability < 0.5) return -studentQuantile({ probability: 1 - probability, freedom })
  // t² / (freedom + t²) is Beta(1/2, freedom/2).
  const share = betaQuantile({ probability: 2 * probability - 1, a: 0.5, b: freedom / 2 })
  return Math.sqrt((freedom * share) / (1 - share))
}

/** Beyond this the series of the error function adds nothing. */
const FARTHEST = 9

/** The z that a standard normal variable stays below with this probability, 0 < probability < 1. */
export function normalQuantile(probability: number): number {
  if (probability < 0.5) return -normalQuantile(1 - probability)
  return solveRising((z) => normalCentre(z) - (2 * probability - 1), 0, FARTHEST)
}

/** P(|Z| < z) = erf(z / √2), as the series whose terms are all positive. */
function normalCentre(z: number): number {
  let term = z
  let sum = z
  for (let odd = 3; term > sum * CONVERGED; odd += 2) {
    term *= (z * z) / odd
    sum += term
  }
  return Math.sqrt(2 / Math.PI) * Math.exp((-z * z) / 2) * sum
}

/** Bisection down to neighbouring numbers: slow and exact, for a function that rises from low to high. */
function solveRising(rising: (x: number) => number, low: number, high: number): number {
  let [below, above] = [low, high]
  for (;;) {
    const middle = (below + above) / 2
    if (middle === below || middle === above) return middle
    if (rising(middle) < 0) below = middle
    else above = middle
  }
}
