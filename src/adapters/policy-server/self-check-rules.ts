export interface SelfCheckFigures {
  tokens: number
  /** Median of |told − scored|. */
  medianDifference: number
  /** Mean of told − scored: noise averages out, a filter does not. */
  meanExcess: number
  /** Distinct tokens drawn at one position. */
  draws: number
  /** Largest |told difference − scored difference / temperature| between two draws; null with fewer than two. */
  slopeError: number | null
  /** Tokens that the samples of a higher temperature come from, as a share of the vocabulary; null where no temperature shows it. */
  reach: number | null
}

/** Signed differences of many tokens average their noise away. */
const MEAN_SHARPER_BY = 4

/** @param pairs for each sampled token the log-probability that came with the sample, and the one of a later scoring; temperature 1 */
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
  // Written so that NaN and infinities, too, are problems.
  const isClose = medianDifference <= tolerance && Math.abs(meanExcess) <= tolerance / MEAN_SHARPER_BY
  const problem = isClose
    ? null
    : 'Expected what the server says of its samples to be what it scores them with; a filter, a penalty or another temperature is at work'
  return { figures, problem }
}

/** Draws of one position, and whether they tell a server that heeds the temperature from one that does not. */
export type SlopeVerdict = Pick<SelfCheckFigures, 'draws' | 'slopeError'> & { kind: 'right' | 'wrong' | 'untold' }

/** At one position log p_T(a) − log p_T(b) is (log p(a) − log p(b)) / T; the normaliser cancels. */
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
  // Four log-probabilities enter, two of them divided by the temperature.
  const limit = tolerance * (2 + 2 / temperature)
  const facts = { draws: draws.length, slopeError }
  // Written so that NaN, too, is wrong.
  if (!(slopeError <= limit)) return { kind: 'wrong', ...facts }
  // What a server that ignores the temperature would be off by. Tokens of about the same probability show nothing.
  const whatRawWouldShow = Math.max(
    ...others.map(({ scored }) => Math.abs((scored - first.scored) * (1 - 1 / temperature))),
  )
  return { kind: whatRawWouldShow > 2 * limit ? 'right' : 'untold', ...facts }
}

/** Draws that a verdict needs, of tokens that are not all but certain. */
export const REACH_DRAWS = 512
/** Above it a draw says nothing of the others: it has most of the mass. */
const MOST_LIKELY = Math.log(0.5)
/** Of such draws, to look further at a temperature. */
const LEAST_OPEN = 0.9
/** Standard deviation of what is said of the draws, in nats: with a wider one their mean needs more of them. */
const WIDEST = 0.7
/** Standard errors below the whole vocabulary. An honest server is as far off once in millions. */
const REACH_DEVIATIONS = 5

/** Whether the draws of a temperature are alike enough for `judgeReach`. */
export function isLevel(told: readonly number[]): boolean {
  const open = openOf(told)
  return open.length > 0 && open.length >= LEAST_OPEN * told.length && !(deviationOf(open) > WIDEST)
}

/**
 * Whether samples come from the whole distribution that they are said to come from: the mean of 1 / p over samples of p is the number of
 * tokens that p is not zero for, at every temperature; at one that makes tokens alike a few samples give it. A filter, or another temperature,
 * draws likelier tokens than it admits and stays below, even if what it says of them is what a server without it would say.
 * @param told of the draws of a moderate temperature; @param flat of one that makes tokens alike
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
  // Written so that NaN, too, is a problem.
  const isWhole = reach >= 1 - tolerance - REACH_DEVIATIONS * error
  const problem = isWhole
    ? null
    : 'Expected samples from the whole vocabulary, as likely as the server says; a filter or another temperature is at work that its log-probabilities do not show'
  return { reach, problem }
}

/** Mean of 1 / p, and its standard error. */
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
