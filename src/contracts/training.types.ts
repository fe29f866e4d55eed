import type { PolicyRef } from './policy.types.ts'
import type { StageScore } from './workflows.types.ts'

/** When a job's figures hold its run; null = never. Metric names in trainer terms stand behind each. */
export interface AlarmLimits {
  /** |k1| and |k3|, nats a token. */
  kl: number | null
  /** `abs_dlogp_max`, nats. */
  logprobGap: number | null
  /** `is_mean`: lowest and highest mean importance weight. */
  importanceMean: [low: number, high: number]
  /** `is_std` */
  importanceStd: number | null
  /** `ess`: least effective share of the samples. */
  effectiveSamples: number | null
  chi2: number | null
  /** `tis_capped`: largest share of tokens whose weight was cut. */
  capped: number | null
  /** `masked_frac`: largest share of tokens that were left out. */
  masked: number | null
  /** `grad_norm` before clipping: largest. */
  gradNorm: number | null
  /** `entropy`, nats a token: least. */
  entropy: number | null
  /** `entropy` as a share of that of the stage's first optimizer step: least. */
  entropyShare: number | null
  /** `loss` of a step of fine-tuning, nats a token: largest. */
  fineTuningLoss: number | null
  /** |k1|, nats a token, beyond which the stage ends as diverged and its policy is not published. */
  divergedKl: number | null
}

/** A figure of one optimizer step outside its limit. */
export interface TrainingAlarm {
  /** Optimizer step of the job, from 1. */
  step: number
  metric: string
  /** Null for a value that is no finite number. */
  value: number | null
  limit: number
  side: 'above' | 'below'
}

/** What a training job measured, kept with its iteration. */
export interface TrainingRecord {
  schema: 'longhaul.training/1'
  stage: string
  iteration: number
  slice: number
  policy: string
  /** One object an optimizer step, as the trainer logged it. */
  steps: Record<string, unknown>[]
  alarms: TrainingAlarm[]
}

export interface KeptPolicies {
  schema: 'longhaul.kept-policies/1'
  policies: PolicyRef[]
}

/** Append-only: `promotions/000001.json`; the newest counts. */
export interface Promotion {
  schema: 'longhaul.promotion/1'
  number: number
  run: string
  policy: PolicyRef
  score: StageScore
}

export interface JobPlanRecord {
  schema: 'longhaul.job-plan/1'
  totalSteps: number
}
