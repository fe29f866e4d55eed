import { episodeId } from '../../contracts/keys.ts'
import type { EpisodeLimits, EpisodeSpec, SamplingOptions } from '../../contracts/episodes.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import type { EpisodeInput } from '../../contracts/workflows.types.ts'
import { evaluationLimits } from '../../domain/statistics/evaluation-limits.ts'
import { seedFrom, turnMaterial } from '../../domain/hash-order.ts'
import { chatml } from '../../scaffold/render.ts'
import { scaffoldProfile } from '../../scaffold/profiles.ts'
import { sha256Hex } from '../../platform/hash.ts'
import type { TaskReader } from '../runtime/stored-records.ts'
import type { EpisodeSetting } from './sampler.ts'

/** Stage names of evaluations begin so; everything else is `rft` or a reinforce stage. */
const EVALUATION = 'eval-'

/** What the recipe says about the stage that an episode belongs to. */
interface StageRules {
  maxTurns: number
  contextTokens: number
  demonstration: boolean
  sampling: SamplingOptions
}

/** Deterministic: the same recipe and identity give the same spec, so that every attempt stores equal bytes. */
export function episodeSpec(recipe: Recipe, input: EpisodeInput): EpisodeSpec {
  const rules = stageRules(recipe, input.stage)
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
    demonstration: rules.demonstration,
    sampling: rules.sampling,
    limits: limits(recipe, rules),
    capture: recipe.scaffold.submit.capture,
  }
}

function limits(recipe: Recipe, rules: StageRules): EpisodeLimits {
  return {
    maxTurns: rules.maxTurns,
    contextTokens: rules.contextTokens,
    maxTokensPerTurn: recipe.scaffold.limits.maxTokensPerTurn,
    commandTimeoutMs: recipe.scaffold.limits.commandTimeoutS * 1000,
    episodeTimeoutMs: recipe.rollout.episodeTimeoutS * 1000,
    turnsPerStep: recipe.rollout.turnsPerStep,
  }
}

function stageRules(recipe: Recipe, stage: string): StageRules {
  const { sampling } = recipe.rollout
  if (stage.startsWith(EVALUATION)) {
    const { maxTurns, context } = evaluationLimits(recipe, stage.slice(EVALUATION.length))
    const { demonstration } = recipe.evaluate
    return { maxTurns, contextTokens: context, demonstration, sampling: evaluationSampling(recipe) }
  }
  if (stage === 'rft' && recipe.rft !== null) {
    const { maxTurns, context, demonstration } = recipe.rft
    return { maxTurns, contextTokens: context, demonstration, sampling }
  }
  const found = recipe.reinforce?.stages.find(({ name }) => name === stage)
  if (found === undefined) {
    throw new LonghaulError({ code: 'Config.Invalid', message: 'The recipe has no such stage', details: { stage } })
  }
  return { maxTurns: found.maxTurns, contextTokens: found.context, demonstration: false, sampling }
}

/** The paper evaluates with each model's published decoding; it is read once and kept in the recipe, never left to a server. */
function evaluationSampling(recipe: Recipe): SamplingOptions {
  return recipe.evaluate.sampling === 'modelDefault' && recipe.evaluate.modelSampling !== null
    ? recipe.evaluate.modelSampling
    : recipe.rollout.sampling
}

/** Looks up what a spec names. */
export function createSettingResolver(deps: { tasks: TaskReader }): (spec: EpisodeSpec) => Promise<EpisodeSetting> {
  return async (spec) => {
    const task = await deps.tasks({ suite: spec.suiteHash, taskId: spec.taskId })
    return { task, profile: scaffoldProfile(spec.scaffold), format: chatml }
  }
}

/** Derived from the recipe's seed and the episode's identity, never from the run's name: a run can be repeated. */
export function turnSeed(identity: EpisodeInput & { recipeSeed: number; turn: number }): number {
  return seedFrom(sha256Hex(turnMaterial(identity)))
}
