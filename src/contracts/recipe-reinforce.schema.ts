/** Multi-turn DAPO as a recipe states it. */
import { z } from 'zod'
import type { ReinforceRecipe, ReinforceStageRecipe } from './recipe.types.ts'
import { count, optimizerSchema } from './recipe-parts.schema.ts'

const reward = z.strictObject({
  pass: z.number().default(1),
  fail: z.number().default(0),
  unsubmitted: z.number().default(0),
  turnPenalty: z
    .strictObject({
      start: z.literal('L_thr').default('L_thr'),
      end: z.literal('T_max').default('T_max'),
      min: z.number().max(0).default(-1).describe('Penalty at the turn limit'),
    })
    .prefault({}),
  contextPenalty: z
    .strictObject({
      start: z.number().min(0).lt(1).describe('Share of the stage’s context up to which tokens cost nothing'),
      min: z.number().lt(0).default(-1).describe('Penalty where the context is full'),
    })
    .nullable()
    .default(null)
    .describe('Beside the turn penalty: grows with the tokens of prompts, replies and observations'),
})

const filter = z.strictObject({
  on: z.enum(['outcome', 'shaped']).default('outcome').describe('Which reward must differ inside a group'),
  alsoZeroAdvantage: z.boolean().default(true),
  minGroupStd: z.number().min(0).default(1e-3),
  refill: z
    .union([z.literal(false), count().max(20)])
    .default(false)
    .describe(
      'Rounds of further problems that an iteration may draw for groups without a spread (DAPO’s dynamic sampling)',
    ),
})

const loss = z.strictObject({
  level: z.literal('token').default('token'),
  normalizer: z.literal('globalActionTokens').default('globalActionTokens'),
  kl: z.literal(0).default(0),
  entropy: z.literal(0).default(0),
  dualClip: z.number().gt(1).nullable().default(null),
  behaviourCorrection: z.enum(['none', 'tis', 'icepop']).default('none'),
  sequenceMask: z
    .strictObject({
      low: z.number().gt(0).lt(1).default(0.99),
      high: z.number().gt(1).default(1.01),
    })
    .nullable()
    .default(null)
    .describe(
      'A trajectory whose importance ratio has a geometric mean outside of this has no loss; {} takes the defaults',
    ),
})

const stage = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,39}$/)
    .describe('Part of ids: dapo-1, dapo-2'),
  context: count(),
  maxTurns: count(),
  penaltyStart: count().describe('L_thr: the turn penalty starts here'),
  problemsPerIteration: count(),
  pool: z.enum(['filtered', 'reselected']).default('filtered'),
  select: z
    .strictObject({
      dropSuccessAtLeast: z.number().gt(0).max(1),
      dropNeverSolved: z.boolean(),
      over: z.string().min(1).describe('The stage whose rollouts decide'),
      unseen: z.enum(['keep', 'drop']).default('keep'),
    })
    .nullable()
    .default(null),
  batch: count().describe('Trajectories per optimizer step'),
  clip: z.strictObject({ low: z.number().gt(0).lt(1), high: z.number().gt(0) }),
  until: z.strictObject({
    maxIterations: count(),
    plateau: z
      .strictObject({
        metric: z.literal('heldOut.pass1').default('heldOut.pass1'),
        window: count().describe(
          'Iterations: the mean score of the last so many is compared with that of as many before',
        ),
        minGain: z.number().min(0).describe('A smaller gain than this ends the stage'),
      })
      .nullable()
      .default(null),
  }),
}) satisfies z.ZodType<ReinforceStageRecipe>

export const reinforceSchema = z.strictObject({
  groupSize: z.int().min(2),
  minGroupSize: z.int().min(2).default(2).describe('Fewer valid siblings than this and the group is dropped'),
  mode: z.literal('sync').default('sync'),
  maxPolicyLag: z.literal(0).default(0),
  reward: reward.prefault({}),
  advantage: z
    .strictObject({
      center: z.literal('group').default('group'),
      scale: z
        .enum(['groupStd', 'none'])
        .default('groupStd')
        .describe('none: reward minus mean, without the standard deviation (Dr. GRPO)'),
      ddof: z.literal(1).default(1),
      delta: z.number().gt(0).default(1e-6),
    })
    .prefault({}),
  filter: filter.prefault({}),
  overlong: z.literal('keep').default('keep'),
  loss: loss.prefault({}),
  oldLogprobs: z.enum(['trainer', 'sampler']).default('trainer'),
  mask: z
    .strictObject({
      observations: z.literal(0).default(0),
      formatErrorTurns: z.union([z.literal(0), z.literal(1)]).default(1),
    })
    .prefault({}),
  optim: optimizerSchema,
  epochsPerIteration: count().default(1),
  keepState: z.boolean().default(true).describe('Optimizer state is carried over iterations and stages'),
  evaluateEvery: count().nullable().default(null),
  stages: z.array(stage).min(1),
}) satisfies z.ZodType<ReinforceRecipe>
