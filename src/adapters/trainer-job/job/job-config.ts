import { LonghaulError } from '../../../contracts/errors.ts'
import type {
  LossRecipe,
  OptimizerRecipe,
  Recipe,
  ReinforceRecipe,
  ReinforceStageRecipe,
} from '../../../contracts/recipe.types.ts'

export interface JobConfigInput {
  recipe: Recipe
  kind: 'rft' | 'dapo'
  /** `rft`, or the name of a reinforce stage. */
  stage: string
  optimizerInit: 'fresh' | 'carry'
  totalSteps: number
  /** Hash of the manifest of the KL reference policy; null if the loss has no KL. @default null */
  referenceSha256?: string | null
}

/** Increase it when the meaning of an objective changes, which changes the job key. */
const LOSS_VERSION = 1

/** Bounds of the corrections. Recipes choose only the kind. */
const TIS_CAP = 2.0
const ICEPOP_RANGE = [0.5, 5.0]

/** The trainer's names. */
const CORRECTIONS = {
  none: 'none',
  tis: 'tis',
  sequenceTis: 'sequence_tis',
  geometricTis: 'geometric_tis',
  icepop: 'icepop',
} as const satisfies Record<LossRecipe['behaviourCorrection'], string>
const ALGORITHMS = { grpo: 'grpo', drGrpo: 'dr_grpo', gspo: 'gspo', cispo: 'cispo' } as const

/**
 * Builds config.json. It holds everything that changes the result of a job and nothing else, because its bytes are part of the job's
 * key. Only the fields of the mode are present, because the trainer refuses a switch that it would ignore.
 * @throws LonghaulError `Config.Invalid` if the recipe has no such stage
 */
export function jobConfig(input: JobConfigInput): Record<string, unknown> {
  const { recipe, kind, stage, optimizerInit, totalSteps, referenceSha256 = null } = input
  const part = kind === 'rft' ? rftPart(recipe) : dapoPart(recipe, stage, referenceSha256)
  return {
    schema: 'longhaul.config/1',
    loss_version: LOSS_VERSION,
    seed: recipe.seed,
    stage: kind,
    optimizer_init: optimizerInit,
    ...part.fields,
    optimizer: optimizerFields(part.optim),
    schedule: scheduleFields(part.optim, totalSteps),
    rope: ropeField(recipe),
    ...loraField(recipe),
    export: { dtype: recipe.trainer.exportDtype },
  }
}

interface ConfigPart {
  fields: Record<string, unknown>
  optim: OptimizerRecipe
}

function rftPart({ rft }: Recipe): ConfigPart {
  if (rft === null) throw withoutStage('rft')
  return { optim: rft.optim, fields: { batch_size: rft.batch, epochs: rft.epochs } }
}

function dapoPart(recipe: Recipe, name: string, referenceSha256: string | null): ConfigPart {
  const { reinforce, stage } = reinforceStage(recipe, name)
  const { batch } = stage
  return {
    optim: reinforce.optim,
    fields: {
      ...(typeof batch === 'number' ? { batch_size: batch } : { token_budget: batch.tokens }),
      epochs: reinforce.epochsPerIteration,
      max_policy_lag: reinforce.maxPolicyLag,
      ...(reinforce.loss.algorithm === 'dpo'
        ? { dpo: pullOf(reinforce.loss, referenceSha256) }
        : { objective: policyLoss(reinforce, stage, referenceSha256) }),
    },
  }
}

function policyLoss(reinforce: ReinforceRecipe, stage: ReinforceStageRecipe, referenceSha256: string | null) {
  return {
    ...objectiveFields(reinforce, stage),
    ...algorithmFields(reinforce.loss, stage),
    ...klField(reinforce.loss, referenceSha256),
  }
}

/** @throws LonghaulError `Config.Invalid` */
export function reinforceStage(
  { reinforce }: Recipe,
  name: string,
): { reinforce: ReinforceRecipe; stage: ReinforceStageRecipe; index: number } {
  const index = reinforce?.stages.findIndex((stage) => stage.name === name) ?? -1
  const stage = reinforce?.stages[index]
  if (reinforce === null || stage === undefined) throw withoutStage(name)
  return { reinforce, stage, index }
}

function objectiveFields(
  { loss, oldLogprobs }: ReinforceRecipe,
  { clip }: ReinforceStageRecipe,
): Record<string, unknown> {
  const correction = CORRECTIONS[loss.behaviourCorrection]
  // Recipes stored by an older version lack this key.
  const mask = loss.sequenceMask ?? null
  return {
    // Every switch is set explicitly below; the profile only names the family.
    profile: correction === 'none' && loss.dualClip === null && mask === null ? 'paper' : 'safe',
    prox: oldLogprobs === 'trainer' ? 'recompute' : 'behaviour',
    correction,
    ...(correction === 'none' || correction === 'icepop' ? {} : { tis_cap: TIS_CAP }),
    ...(correction === 'icepop' ? { icepop_range: ICEPOP_RANGE } : {}),
    ...(mask === null ? { seq_mask: 'none' } : { seq_mask: 'geo', geo_range: [mask.low, mask.high] }),
    dual_clip: loss.dualClip ?? 'none',
    clip_low: clip?.low,
    clip_high: clip?.high,
  }
}

/** Omits fields with their default value, so that jobs of recipes without them keep their keys. */
function algorithmFields(
  { algorithm, entropy }: LossRecipe,
  { context }: ReinforceStageRecipe,
): Record<string, unknown> {
  return {
    ...(algorithm === undefined || algorithm === 'dpo' ? {} : { algorithm: ALGORITHMS[algorithm] }),
    // No trajectory has more loss tokens than its context.
    ...(algorithm === 'drGrpo' ? { length: context } : {}),
    ...(entropy === 0 ? {} : { entropy_coef: entropy }),
  }
}

function klField(loss: LossRecipe, referenceSha256: string | null): Record<string, unknown> {
  return loss.kl === 0 ? {} : { kl: pullOf(loss, referenceSha256) }
}

/** The KL term to the reference policy, in the format of the trainer's spec. */
function pullOf({ kl }: LossRecipe, referenceSha256: string | null): Record<string, unknown> {
  return { coef: kl === 0 ? 0 : kl.coefficient, reference_sha256: referenceSha256 }
}

/** Omits defaults that are older than their switch, so that older jobs keep their keys. */
function optimizerFields(optim: OptimizerRecipe): Record<string, unknown> {
  const { name, lr, betas, eps, weightDecay, gradClip, states } = optim
  const moments = states === 'float32' ? {} : { states }
  return { name, lr, betas, eps, weight_decay: weightDecay, grad_clip: gradClip, ...moments }
}

function loraField({ model: { lora } }: Recipe): Record<string, unknown> {
  return lora === null ? {} : { lora: { rank: lora.rank, alpha: lora.alpha } }
}

function scheduleFields(
  { schedule, warmupSteps, endLr }: OptimizerRecipe,
  totalSteps: number,
): Record<string, unknown> {
  if (schedule === 'constant') return { kind: schedule, warmup_steps: warmupSteps }
  // A tiny data set may have fewer steps than its warm-up. Then nothing is left to decay, and the warm-up is shortened.
  return { kind: schedule, warmup_steps: Math.min(warmupSteps, totalSteps - 1), total_steps: totalSteps, end_lr: endLr }
}

function ropeField({ model: { rope } }: Recipe): Record<string, unknown> | null {
  return rope === null ? null : { type: rope.type, factor: rope.factor, original_max: rope.originalMax }
}

function withoutStage(stage: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message: 'Expected a stage of the recipe', details: { stage } })
}
