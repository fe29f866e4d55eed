/** Small episodes, batches and recipes for tests of the trainer's adapters. */
import type { ActionRecord, EpisodeRecord } from '../../src/contracts/episodes.types.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import type { AlarmLimits } from '../../src/contracts/training.types.ts'
import { makeRecord } from './episode-records.ts'

export function makeAction(record: EpisodeRecord, turn: number, fields: Partial<ActionRecord> = {}): ActionRecord {
  const ids = [10 + turn, 20 + record.index, 258]
  return {
    schema: 'longhaul.action/1',
    episode: record.episode,
    turn,
    promptDelta: turn === 0 ? [257, 1, 2, 3] : [5, 6],
    ids,
    logprobs: ids.map((_id, index) => -0.5 - index),
    text: '',
    finishReason: 'stop',
    policy: record.policy,
    seed: 1,
    formatError: null,
    command: 'ls',
    token: 't',
    sampledAtMs: 0,
    sampleMs: 0,
    ...fields,
  }
}

/** A submitted episode of `turns` turns with plausible actions. */
export function makeEpisode(fields: Partial<EpisodeRecord>): { record: EpisodeRecord; actions: ActionRecord[] } {
  const record = makeRecord({ turns: 2, ...fields })
  return { record, actions: Array.from({ length: record.turns }, (_, turn) => makeAction(record, turn)) }
}

const optim = {
  name: 'adamw' as const,
  lr: 1e-3,
  betas: [0.9, 0.95] as [number, number],
  eps: 1e-8,
  weightDecay: 0,
  gradClip: 1,
  states: 'float32' as const,
  schedule: 'linear' as const,
  warmupSteps: 1,
  endLr: 1e-4,
}

export const ALARM_LIMITS: AlarmLimits = {
  kl: 0.1,
  logprobGap: null,
  importanceMean: [0.5, 2],
  importanceStd: 1,
  effectiveSamples: 0.3,
  chi2: 1,
  capped: 0.1,
  masked: 0.3,
  gradNorm: null,
  entropy: null,
  entropyShare: null,
  fineTuningLoss: null,
  divergedKl: 1,
}

/** Only the fields that the trainer's adapters read. */
export function makeTrainingRecipe(): Recipe {
  return trainingSettings() as Partial<Recipe> as Recipe
}

/** The parts of a recipe that the trainer's adapters read. */
export function trainingSettings() {
  return {
    name: 'test',
    seed: 5,
    model: { base: 'x', chatFormat: 'chatml', train: 'full', lora: null, cutoff: null, rope: null },
    rft: {
      tasks: null,
      rolloutsPerTask: 4,
      demonstration: false,
      trainWithDemonstration: false,
      maxTurns: 6,
      context: 256,
      keep: 'resolved',
      maxPerTask: null,
      mask: { observations: 0, formatErrorTurns: 0, toolErrorTurns: 1 },
      optim,
      epochs: 2,
      batch: 2,
      maxSteps: null,
      stepsPerJob: 10,
    },
    reinforce: {
      groupSize: 4,
      minGroupSize: 2,
      mode: 'sync',
      maxPolicyLag: 0,
      reward: {
        pass: 1,
        fail: 0,
        unsubmitted: 0,
        turnPenalty: { start: 'L_thr', end: 'T_max', min: -0.5 },
        contextPenalty: null,
      },
      advantage: { center: 'group', scale: 'groupStd', ddof: 1, delta: 1e-6 },
      filter: { on: 'shaped', alsoZeroAdvantage: true, minGroupStd: 1e-3, refill: false },
      overlong: 'keep',
      loss: {
        level: 'token',
        normalizer: 'globalActionTokens',
        kl: 0,
        entropy: 0,
        dualClip: null,
        behaviourCorrection: 'none',
        sequenceMask: null,
      },
      oldLogprobs: 'trainer',
      mask: { observations: 0, formatErrorTurns: 1 },
      optim: { ...optim, schedule: 'constant', warmupSteps: 0 },
      epochsPerIteration: 1,
      keepState: true,
      evaluateEvery: null,
      stages: [
        {
          name: 'dapo-1',
          context: 256,
          maxTurns: 6,
          penaltyStart: 4,
          problemsPerIteration: 2,
          pool: 'filtered',
          select: null,
          batch: 2,
          clip: { low: 0.2, high: 0.28 },
          until: { maxIterations: 2, plateau: null },
        },
      ],
    },
    evaluate: {
      attempts: 1,
      tasks: null,
      sampling: 'train',
      modelSampling: null,
      maxTurns: 6,
      context: 256,
      limits: {},
      demonstration: false,
      compare: null,
      suites: {},
      quick: null,
      policy: 'base',
      prices: null,
    },
    trainer: {
      launcher: 'process',
      docker: null,
      slurm: null,
      kubernetes: null,
      device: 'cpu',
      nodes: 1,
      ranksPerNode: 1,
      contextParallel: 1,
      maxTokensPerMicro: 512,
      deterministic: true,
      timeoutS: 120,
      stallS: 60,
      recompute: 'none',
      offload: 'none',
      exportDtype: 'float32',
      alarms: { onAlarm: 'pause', ...ALARM_LIMITS },
    },
  } satisfies Partial<Recipe>
}
