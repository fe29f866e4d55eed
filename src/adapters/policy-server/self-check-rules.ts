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
