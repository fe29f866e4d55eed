/** Grading of patches that exist already: a file of predictions, or the stored patches of a run. */
import type { ArtifactRef } from './artifacts.types.ts'
import type { VerdictKind } from './episodes.types.ts'
import type { StoredInterval } from './evaluations.types.ts'
import type { GradingProfile } from './tasks.types.ts'

export interface ShortVerdict {
  kind: VerdictKind
  reason: string | null
}

/** One patch to grade. */
export interface GradingInstance {
  suite: string
  taskId: string
  profile: GradingProfile
  /** Model of a prediction, policy of an episode. */
  model: string
  /** Null: nothing to run, because the patch is empty or has a fault. */
  patch: ArtifactRef | null
  fault: PatchFault | null
  /** Where the patch comes from an episode: what was said of it first. */
  episode: string | null
  before: ShortVerdict | null
}

/** What a grading run grades, decided once: every attempt and every continuation reads the same. */
export interface GradingPlan {
  schema: 'longhaul.grading-plan/1'
  run: string
  source:
    | { kind: 'predictions'; hash: string; format: PredictionFormat; duplicates: string[] }
    | { kind: 'run'; run: string; stages: string[] }
  /** Set where the tasks' own profiles are not used. */
  profile: GradingProfile | null
  /** The set that predictions are of; a run's patches may come from several. */
  suite: { hash: string; name: string } | null
  /** Those to run first, the others after them. */
  instances: GradingInstance[]
  /** How many of them are run. */
  runnable: number
}

/** Why a patch has no verdict yet: kept apart from verdicts, so that a run that goes on tries again. */
export interface UngradedRecord {
  schema: 'longhaul.ungraded/1'
  run: string
  taskId: string
  reason: string
}

/** Share resolved with what makes it readable. */
export interface GradingScore {
  mean: number
  sem: number
  /** 95 %, clustered by repository and wide enough for few tasks; null for no task. */
  interval: StoredInterval | null
  tasks: number
  attempts: number
}

export interface GradedInstance extends ShortVerdict {
  taskId: string
  model: string
  profile: GradingProfile
  episode: string | null
  before: ShortVerdict | null
}

export interface GradingCounts {
  resolved: number
  unresolved: number
  couldNotGrade: number
  /** Among the unresolved: never run. */
  empty: number
  /** Tasks of the suite without a prediction. */
  incomplete: number
}

/** The end of a grading run, derived from its plan and verdicts. */
export interface GradingRecord {
  schema: 'longhaul.grading/1'
  run: string
  source: GradingPlan['source']
  profile: GradingProfile | null
  suite: GradingPlan['suite']
  counts: GradingCounts
  /** Over patches with a verdict. */
  graded: GradingScore | null
  /** As official harnesses count: what could not be graded is unresolved; of predictions, so is every task without one. */
  official: GradingScore | null
  instances: GradedInstance[]
}

/** `swebench`: `instance_id`, `model_name_or_path`, `model_patch`; `rebench-v2`: `instance_id`, `patch`; `gold`: the data set's own. */
export type PredictionFormat = 'swebench' | 'rebench-v2' | 'gold'

export interface Prediction {
  /** The data set's instance id. */
  taskId: string
  model: string
  /** Exactly as given; `null` and `""` are the same to every harness: nothing to run. */
  patch: string
}

/** `not-unicode`: half a character, which no file can hold. `too-large`: more than any repair has. Neither is ever run. */
export type PatchFault = 'not-unicode' | 'too-large'

/** A prediction as it is stored: its patch lies beside it under its own hash. */
export interface StoredPrediction {
  taskId: string
  model: string
  /** Null for an empty patch, and for one with a fault. */
  patch: ArtifactRef | null
  fault: PatchFault | null
}

/** A predictions file, addressed by what it says: the same predictions in another format are the same set. */
export interface PredictionSet {
  schema: 'longhaul.predictions/1'
  hash: string
  format: PredictionFormat
  /** One for each id, in the order in which ids first appear. */
  predictions: StoredPrediction[]
  /** Ids given more than once: the last one counts, as everywhere. */
  duplicates: string[]
}
