import type { SamplingOptions } from './episodes.types.ts'

/**
 * The policy's own distribution, neither truncated nor re-weighted. Training samples from it, since any other distribution would
 * make its importance ratios wrong. It is also the default of every sampling field.
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
