import type { SamplingOptions } from './episodes.types.ts'

/**
 * The policy's own distribution, neither truncated nor re-weighted: what training samples from, since anything else would make
 * its importance ratios wrong, and what a field means that nobody sets.
 */
export const NEUTRAL_SAMPLING = Object.freeze({
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  repetitionPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
}) satisfies SamplingOptions
