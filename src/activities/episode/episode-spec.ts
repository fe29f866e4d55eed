import { evaluationName, purposeOf } from '../../contracts/episode-purpose.ts'
import { episodeId } from '../../contracts/keys.ts'
import type { EpisodeLimits, EpisodePurpose, EpisodeSpec, SamplingOptions } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { evaluationLimits } from '../../domain/statistics/evaluation-limits.ts'
import { seedFrom, turnMaterial } from '../../domain/hash-order.ts'
import { chatFormats } from '../../scaffold/render.ts'
import { scaffoldProfile } from '../../scaffold/profiles.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { TaskReader } from '../runtime/stored-records.ts'
import type { EpisodeSetting } from './samplers.ts'

/** The recipe's settings for episodes of one purpose. */
interface PurposeRules {
  maxTurns: number
  contextTokens: number
  demonstration: boolean
  sampling: SamplingOptions
}

/** Deterministic: the same recipe and identity give the same spec, so that every attempt stores equal bytes. */
export function episodeSpec(recipe: Recipe, input: EpisodeInput): EpisodeSpec {
  const rules = rulesFor(recipe, purposeOf(input.stage))
  return {
    schema: 'longhaul.episode/1',
    episode: episodeId(input),
    run: input.run,
    stage: input.stage,
    iteration: input.iteration,
    taskId: input.taskId,
    index: input.index,
    recipeSeed: recipe.seed,
    suiteHash: input.suite,
    policy: input.policy,
    scaffold: recipe.scaffold.profile,
    ...(recipe.model.chatFormat === 'chatml' ? {} : { chatFormat: recipe.model.chatFormat }),
    demonstration: rules.demonstration,
    sampling: rules.sampling,
    limits: limits(recipe, rules),
    capture: recipe.scaffold.submit.capture,
  }
}

function limits(recipe: Recipe, rules: PurposeRules): EpisodeLimits {
  return {
    maxTurns: rules.maxTurns,
    contextTokens: rules.contextTokens,
    maxTokensPerTurn: recipe.scaffold.limits.maxTokensPerTurn,
    commandTimeoutMs: recipe.scaffold.limits.commandTimeoutS * 1000,
    episodeTimeoutMs: recipe.rollout.episodeTimeoutS * 1000,
    turnsPerStep: recipe.rollout.turnsPerStep,
  }
}

function rulesFor(recipe: Recipe, purpose: EpisodePurpose): PurposeRules {
  const { sampling } = recipe.rollout
  switch (purpose.kind) {
    case 'evaluation': {
      const { maxTurns, context } = evaluationLimits(recipe, evaluationName(purpose))
      const { demonstration } = recipe.evaluate
      return { maxTurns, contextTokens: context, demonstration, sampling: evaluationSampling(recipe) }
    }
    case 'rft': {
      if (recipe.rft === null) throw withoutStage('rft')
      const { maxTurns, context, demonstration } = recipe.rft
      return { maxTurns, contextTokens: context, demonstration, sampling }
    }
    case 'reinforce': {
      const found = recipe.reinforce?.stages.find(({ name }) => name === purpose.stage)
      if (found === undefined) throw withoutStage(purpose.stage)
      return { maxTurns: found.maxTurns, contextTokens: found.context, demonstration: false, sampling }
    }
  }
}

function withoutStage(stage: string): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message: 'The recipe has no such stage', details: { stage } })
}

/** The paper evaluates with each model's published decoding options. They are read once and stored in the recipe, and never left to
 *  a server's defaults. */
function evaluationSampling(recipe: Recipe): SamplingOptions {
  return recipe.evaluate.sampling === 'modelDefault' && recipe.evaluate.modelSampling !== null
    ? recipe.evaluate.modelSampling
    : recipe.rollout.sampling
}

/** Looks up everything that a spec names. */
export function createSettingResolver(deps: { tasks: TaskReader }): (spec: EpisodeSpec) => Promise<EpisodeSetting> {
  return async (spec) => {
    const task = await deps.tasks({ suite: spec.suiteHash, taskId: spec.taskId })
    return { task, profile: scaffoldProfile(spec.scaffold), format: chatFormats[spec.chatFormat ?? 'chatml'] }
  }
}

/** Derived from the recipe's seed and the episode's identity but not from the run's name, so that a run can be repeated. */
export function turnSeed(identity: EpisodeInput & { recipeSeed: number; turn: number }): number {
  return seedFrom(sha256Hex(turnMaterial(identity)))
}
