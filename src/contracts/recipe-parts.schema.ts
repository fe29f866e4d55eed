/** Pieces that several sections of a recipe share. */
import { z } from 'zod'
import type { SamplingOptions } from './episodes.types.ts'
import { NEUTRAL_SAMPLING } from './neutral-sampling.ts'
import type { OptimizerRecipe } from './recipe.types.ts'

/** An integer ≥ 1. */
export const count = () => z.int().min(1)
/** A finite number > 0. */
export const positive = () => z.number().gt(0)
const share = () => z.number().min(0).max(1)

/** Defaults are neutral decoding. */
export const samplingSchema = z.strictObject({
  temperature: z.number().min(0).default(NEUTRAL_SAMPLING.temperature),
  topP: z.number().gt(0).max(1).default(NEUTRAL_SAMPLING.topP),
  topK: z.int().min(-1).default(NEUTRAL_SAMPLING.topK).describe('−1 = off'),
  minP: share().default(NEUTRAL_SAMPLING.minP),
  repetitionPenalty: positive().default(NEUTRAL_SAMPLING.repetitionPenalty),
  presencePenalty: z.number().min(-2).max(2).default(NEUTRAL_SAMPLING.presencePenalty),
  frequencyPenalty: z.number().min(-2).max(2).default(NEUTRAL_SAMPLING.frequencyPenalty),
}) satisfies z.ZodType<SamplingOptions>

/** Everything but the rate has the paper's value as default. */
export const optimizerSchema = z.strictObject({
  name: z.literal('adamw').default('adamw'),
  lr: positive(),
  betas: z.tuple([share(), share()]).default([0.9, 0.999]),
  eps: positive().default(1e-8),
  weightDecay: z.number().min(0).default(0.1),
  gradClip: positive().default(1),
  schedule: z.enum(['constant', 'linear', 'cosine']).default('constant'),
  warmupSteps: z.int().min(0).default(0),
  states: z.enum(['float32', 'bfloat16']).default('float32').describe('How both moments are kept between updates'),
  endLr: z.number().min(0).default(0).describe('Where a linear or cosine schedule ends'),
}) satisfies z.ZodType<OptimizerRecipe>
