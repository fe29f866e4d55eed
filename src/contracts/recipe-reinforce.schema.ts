/** Multi-turn DAPO as a recipe states it. */
import { z } from 'zod'
import type { LossAlgorithm, LossRecipe, ReinforceRecipe, ReinforceStageRecipe } from './recipe.types.ts'
import { count, optimizerSchema, positive } from './recipe-parts.schema.ts'

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

const stepRewards = z.strictObject({
  weight: positive().default(1).describe('Of a turn’s advantage beside its trajectory’s'),
  formatError: z.number().max(0).default(0).describe('Of a turn whose reply held no runnable command'),
  stoppedCommand: z
    .number()
    .max(0)
    .default(0)
    .describe('Of a turn whose command a limit ended: time, output or processes'),
})

const experts = z.strictObject({
  weight: positive().default(1).describe('Of an expert’s token, where a token of the policy has its advantage'),
  below: count().default(1).describe('Groups with fewer successes than this get an expert'),
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

/** What an algorithm says about `level` and `normalizer`. */
export const LOSS_SHAPES = {
  dapo: { level: 'token', normalizer: 'globalActionTokens' },
  cispo: { level: 'token', normalizer: 'globalActionTokens' },
  grpo: { level: 'token', normalizer: 'trajectoryTokens' },
  drGrpo: { level: 'token', normalizer: 'constantLength' },
  gspo: { level: 'sequence', normalizer: 'trajectoryTokens' },
  dpo: { level: 'sequence', normalizer: 'pairs' },
} as const satisfies Record<LossAlgorithm, Pick<LossRecipe, 'level' | 'normalizer'>>

const loss = z
  .strictObject({
    algorithm: z
      .enum(['dapo', 'grpo', 'drGrpo', 'gspo', 'cispo', 'dpo'])
      .optional()
      .describe('dapo where it is left out; docs/training.md has the formulas'),
    level: z.enum(['token', 'sequence']).optional().describe('Whose ratio is clipped; follows from the algorithm'),
    normalizer: z
      .enum(['globalActionTokens', 'trajectoryTokens', 'constantLength', 'tokenBudget', 'pairs'])
      .optional()
      .describe(
        'Follows from the algorithm; tokenBudget divides by a constant, the batch: { tokens } of the stage (C3PO)',
      ),
    kl: z
      .union([
        z.literal(0),
        z.strictObject({
          coefficient: positive(),
          reference: z
            .enum(['base', 'start'])
            .default('start')
            .describe('The run’s base policy, or the one that reinforcement began with'),
        }),
      ])
      .default(0)
      .describe('Weight of the k3 estimate of the divergence from a reference policy; the beta of dpo'),
    entropy: z.number().min(0).default(0).describe('Weight of the policy’s entropy, which the loss then rewards'),
    dualClip: z.number().gt(1).nullable().default(null),
    behaviourCorrection: z.enum(['none', 'tis', 'sequenceTis', 'geometricTis', 'icepop']).default('none'),
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
  .transform(({ algorithm = 'dapo', level, normalizer, ...rest }): LossRecipe => {
    const shape = LOSS_SHAPES[algorithm]
    return {
      // Left out where it is the default, so that a recipe that names it has the hash of one that does not.
      ...(algorithm === 'dapo' ? {} : { algorithm }),
      level: level ?? shape.level,
      normalizer: normalizer ?? shape.normalizer,
      ...rest,
    }
  })

const stage = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,39}$/, 'expected at most 40 small letters, digits and -, as dapo-1')
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
  batch: z
    .union([count(), z.strictObject({ tokens: count() })])
    .describe('Trajectories per optimizer step, or with { tokens: N } as many as hold up to N loss tokens'),
  clip: z
    .strictObject({ low: z.number().gt(0).lt(1), high: z.number().gt(0) })
    .optional()
    .describe('Bounds of the ratio around 1; every algorithm but dpo needs them'),
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
  stepRewards: stepRewards.optional().describe('Rewards of single turns: each turn gets an advantage of its own'),
  experts: experts
    .optional()
    .describe(
      'Mixes in an episode that fine-tuning kept, one for each group that rarely succeeds; its loss has no ratio',
    ),
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
  overlong: z
    .enum(['keep', 'filter'])
    .default('keep')
    .describe('filter: an episode that a limit ended has no loss; its reward stays in the group'),
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
