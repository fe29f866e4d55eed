export interface SelfCheckFigures {
  tokens: number
  /** Median of |reported − scored|. */
  medianDifference: number
  /** Mean of reported − scored. Noise averages out, a filter's effect does not. */
  meanExcess: number
  /** Number of distinct tokens drawn at one position. */
  draws: number
  /** Largest |reported difference − scored difference / temperature| between two draws; null with fewer than two draws. */
  slopeError: number | null
  /** Share of the vocabulary that samples at a higher temperature come from; null if no temperature can show it. */
  reach: number | null
}

/** The mean of many signed differences averages out noise, so its limit is smaller by this factor. */
const MEAN_SHARPER_BY = 4

/** @param pairs for each sampled token the log-probability reported with the sample and the one of a later scoring, at temperature 1 */
export function judgeSamples({
  pairs,
  tolerance,
}: {
  pairs: readonly (readonly [told: number, scored: number])[]
  tolerance: number
}): { figures: Pick<SelfCheckFigures, 'tokens' | 'medianDifference' | 'meanExcess'>; problem: string | null } {
  const differences = pairs.map(([told, scored]) => told - scored)
  const absolute = differences.map(Math.abs).sort((a, b) => a - b)
  const medianDifference = absolute[Math.floor(absolute.length / 2)] ?? Number.NaN
  const meanExcess = differences.reduce((sum, difference) => sum + difference, 0) / differences.length
  const figures = { tokens: pairs.length, medianDifference, meanExcess }
  // Written so that NaN and infinities count as problems too.
  const isClose = medianDifference <= tolerance && Math.abs(meanExcess) <= tolerance / MEAN_SHARPER_BY
  const problem = isClose
    ? null
    : 'Expected the server to report the same log-probabilities with its samples as when it scores them; a filter, a penalty or another temperature is active'
  return { figures, problem }
}

/** Draws at one position, and whether they distinguish a server that applies the temperature from one that ignores it. */
export type SlopeVerdict = Pick<SelfCheckFigures, 'draws' | 'slopeError'> & { kind: 'right' | 'wrong' | 'untold' }

/** At one position log p_T(a) − log p_T(b) equals (log p(a) − log p(b)) / T, because the normaliser cancels. */
export function judgeSlopes({
  draws,
  temperature,
  tolerance,
}: {
  draws: readonly { told: number; scored: number }[]
  temperature: number
  tolerance: number
}): SlopeVerdict {
  const [first, ...others] = draws
  if (first === undefined || others.length === 0) return { kind: 'untold', draws: draws.length, slopeError: null }
  const errors = others.map(({ told, scored }) => Math.abs(told - first.told - (scored - first.scored) / temperature))
  const slopeError = errors.some(Number.isNaN) ? Number.NaN : Math.max(...errors)
  // Four log-probabilities contribute, two of them divided by the temperature.
  const limit = tolerance * (2 + 2 / temperature)
  const facts = { draws: draws.length, slopeError }
  // Written so that NaN counts as wrong too.
  if (!(slopeError <= limit)) return { kind: 'wrong', ...facts }
  // The error of a server that ignores the temperature. Tokens of about the same probability reveal nothing.
  const whatRawWouldShow = Math.max(
    ...others.map(({ scored }) => Math.abs((scored - first.scored) * (1 - 1 / temperature))),
  )
  return { kind: whatRawWouldShow > 2 * limit ? 'right' : 'untold', ...facts }
}

/** Number of draws that a verdict needs, of tokens whose probability is not close to 1. */
export const REACH_DRAWS = 512
/** A more likely draw holds most of the mass and says nothing about the other tokens. */
const MOST_LIKELY = Math.log(0.5)
/** Minimum share of such draws for further checks at a temperature. */
const LEAST_OPEN = 0.9
/** Maximum standard deviation of the reported log-probabilities, in nats. With a wider spread the mean needs more draws. */
const WIDEST = 0.7
/** Accepted standard errors below the whole vocabulary. An honest server exceeds them once in millions of checks. */
const REACH_DEVIATIONS = 5

/** Returns whether the draws at a temperature are similar enough for `judgeReach`. */
export function isLevel(told: readonly number[]): boolean {
  const open = openOf(told)
  return open.length > 0 && open.length >= LEAST_OPEN * told.length && !(deviationOf(open) > WIDEST)
}

/**
 * Judges whether samples come from the whole distribution that the server reports. The mean of 1 / p over samples of p is the number of
 * tokens with p > 0, at every temperature. At a temperature that flattens the distribution, a few samples estimate it. A filter, or
 * another temperature, draws likelier tokens than reported and gives a smaller mean, even if the reported values are those of an
 * unfiltered server.
 * @param told log-probabilities reported for draws at a moderate temperature; @param flat for draws at one that flattens the
 * distribution
 */
export function judgeReach({
  told,
  flat,
  tolerance,
}: {
  told: readonly number[]
  flat: readonly number[]
  tolerance: number
}): { reach: number | null; problem: string | null } {
  const open = openOf(told)
  if (open.length < LEAST_OPEN * REACH_DRAWS || flat.length === 0 || !isLevel(told))
    return { reach: null, problem: null }
  const vocabulary = countOf(flat)
  const drawn = countOf(open)
  const reach = drawn.mean / vocabulary.mean
  const error = reach * Math.hypot(drawn.error / drawn.mean, vocabulary.error / vocabulary.mean)
  // Written so that NaN counts as a problem too.
  const isWhole = reach >= 1 - tolerance - REACH_DEVIATIONS * error
  const problem = isWhole
    ? null
    : 'Expected samples from the whole vocabulary with the reported probabilities; a filter or another temperature is active that the log-probabilities do not show'
  return { reach, problem }
}

/** Returns the mean of 1 / p and its standard error. */
function countOf(told: readonly number[]): { mean: number; error: number } {
  const inverse = told.map((one) => Math.exp(-one))
  return { mean: meanOf(inverse), error: deviationOf(inverse) / Math.sqrt(inverse.length) }
}

function openOf(told: readonly number[]): number[] {
  return told.filter((one) => !(one > MOST_LIKELY))
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}

function deviationOf(values: readonly number[]): number {
  const mean = meanOf(values)
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / Math.max(1, values.length - 1))
}
