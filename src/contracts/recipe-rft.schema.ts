/** Rejection fine-tuning as a recipe states it. */
import { z } from 'zod'
import type { RftRecipe } from './recipe.types.ts'
import { count, optimizerSchema } from './recipe-parts.schema.ts'

export const rftSchema = z.strictObject({
  tasks: count().nullable().default(null).describe('Tasks sampled from the training suite; null = all'),
  rolloutsPerTask: count(),
  demonstration: z.boolean().default(false).describe('Show the scaffold’s worked example while collecting'),
  trainWithDemonstration: z.boolean().default(false),
  maxTurns: count(),
  context: count(),
  keep: z.literal('resolved').default('resolved'),
  maxPerTask: count().nullable().default(null),
  mask: z
    .strictObject({
      observations: z.literal(0).default(0),
      formatErrorTurns: z.union([z.literal(0), z.literal(1)]).default(0),
      toolErrorTurns: z.literal(1).default(1),
    })
    .prefault({}),
  optim: optimizerSchema,
  epochs: count().default(1),
  batch: count().describe('Trajectories per optimizer step'),
  maxSteps: count().nullable().default(null),
  stepsPerJob: count().default(50).describe('Optimizer steps of one training job'),
}) satisfies z.ZodType<RftRecipe>
