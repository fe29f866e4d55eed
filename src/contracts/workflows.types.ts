/** Inputs and results of every workflow: one JSON object each, nearly all optional for the roots. References and small scalars only. */
import type { ArtifactRef } from './artifacts.types.ts'
import type { Disposition, VerdictKind } from './episodes.types.ts'
import type { GateCounts } from './gates.types.ts'
import type { GradingCounts, GradingScore } from './grading.types.ts'
import type { PolicyRef } from './policy.types.ts'
import type { GradingProfile } from './tasks.types.ts'

/** `{"recipe": "demo"}` is enough. */
export interface TrainAgentInput {
  /** @default "demo" */
  recipe?: string
  /** YAML text instead of a recipe known to the workers; `recipe` then only names it. */
  recipeText?: string
  /** Deep-merged over the file, keys of the recipe. */
  overrides?: Record<string, unknown>
  /** Continues the run of that name (same recipe) or names a new one. */
  run?: string
}

export interface TrainAgentResult {
  run: string
  policy: string
  stages: StageScore[]
  report: ArtifactRef
}

/** One row of the final table. */
export interface StageScore {
  /** As rewards are paid; absent in runs of earlier versions. */
  audited?: { passAt1: number; sem: number }
  name: string
  policy: string
  passAt1: number
  sem: number
  tasks: number
  attempts: number
}

export interface EvaluateInput {
  /** Root form. @default "nightly" */
  recipe?: string
  recipeText?: string
  overrides?: Record<string, unknown>
  run?: string
  /** `base`, `promoted`, or a policy version. @default what the recipe says */
  policy?: string
  /** Child form: set by `trainAgent`. */
  child?: EvaluateChild
}

export interface EvaluateChild {
  plan: ResolvedRun
  name: string
  policy: PolicyRef
  /** One of `evaluate.suites`. @default the held-out one */
  suite?: string
  /** Nothing has published the policy in this execution: publish it before the first episode. @default false */
  publish?: true
}

export interface EvaluateResult extends StageScore {
  run: string
  evaluation: ArtifactRef
}

/** Root form: `{"predictions": FILE, "suite": FILE}` or `{"regrade": RUN}`, with files as the workers see them. */
export interface GradePredictionsInput {
  /** Hash of stored predictions, a file of them, or `gold`. */
  predictions?: string
  /** Hash of a stored suite, a file of rows, or `RECIPE:train`, `RECIPE:heldOut`. */
  suite?: string
  /** Instead of both: grade the stored patches of this run again. */
  regrade?: string
  /** Of that run only these stages. @default all */
  stages?: string[]
  /** @default each task's own */
  profile?: GradingProfile
  /** Whose limits containers have. @default the suite's or the regraded run's, else "nightly" */
  recipe?: string
  recipeText?: string
  overrides?: Record<string, unknown>
  /** Continues the run of that name (same request) or names a new one. */
  run?: string
  /** Continue-as-new state. */
  opened?: OpenedGrading
  from?: number
  counts?: GradingProgress
  paused?: boolean
}

export interface OpenedGrading {
  run: string
  /** For summaries. */
  name: string
  /** Patches to run: places 0 to this − 1 of the plan. */
  patches: number
}

/** Counts of the patches that were run. */
export interface GradingProgress {
  resolved: number
  unresolved: number
  couldNotGrade: number
  /** Failure of the last one that infrastructure kept from a verdict. */
  failure: string | null
}

export interface GradePredictionsResult {
  run: string
  result: ArtifactRef
  counts: GradingCounts
  graded: GradingScore | null
  official: GradingScore | null
  changed: number
}

/** What `resolveRecipe` gives to workflows: the few scalars that decide control flow. */
export interface ResolvedRun {
  run: string
  recipe: ArtifactRef
  recipeName: string
  /** For summaries: recipe · suite · policy, ≤ 200 bytes. */
  summary: string
  rft: boolean
  /** `plateau`: evaluations may end the stage early. */
  stages: { name: string; maxIterations: number; plateau?: true }[]
  evaluateEvery: number | null
  gateRepeats: number
  /** Tasks gated at once; null: as many as the hosts can take, asked for when a gate begins; absent in runs of before: sixteen. */
  gateWidth?: number | null
  heldOutName: string
  /** Names of `evaluate.suites`; absent where there are none. */
  suites?: string[]
  /** What an evaluation started alone is called. Absent in training runs, and in runs of earlier versions: those are called `nightly`, and
   *  their children have ids of a training run. */
  evaluation?: string
}

/** What the records of a run hold when an execution of it begins: none of it is played, trained or published again. */
export interface RecalledRun {
  /** Finished evaluations of the root, in order. */
  scores: StageScore[]
  /** What fine-tuning ended with; absent while it is unfinished. */
  rft?: PolicyRef
  /** Stages with finished iterations, in order. */
  stages: RecalledStage[]
}

export interface RecalledStage {
  name: string
  /** After the last finished iteration. */
  policy: PolicyRef
  /** The first unfinished one. */
  iteration: number
  /** Nothing is left to play: all iterations, a plateau, or the evaluation after the stage has begun. */
  isDone: boolean
}

export interface PreparedSuite {
  suite: string
  name: string
  tasks: number
  /** The run has gated it already. */
  gated?: true
}

export interface GateTasksInput {
  plan: ResolvedRun
  suite: PreparedSuite
  /** First task of this execution's page; continue-as-new moves it. */
  from?: number
  failed?: number
  /** A part of a large suite: the task after its last one, and the share of the width that is its own. */
  part?: { to: number; share: number }
}

export interface GateTasksResult {
  suite: string
  /** Tasks whose gold patch resolves and whose empty patch does not, every time. */
  admitted: number
  refused: number
}

/** What a part of a gate counts; the whole gate decides. */
export interface GatePartResult {
  tasks: number
  refused: number
}

/** `{"recipe": "demo"}` is enough. */
export interface GateSuiteInput {
  /** Its suites and limits are used, and its repeats. @default "demo" */
  recipe?: string
  recipeText?: string
  overrides?: Record<string, unknown>
  run?: string
  /** @default "heldOut" */
  which?: 'train' | 'heldOut'
  /** Set by continue-as-new alone. */
  page?: { plan: ResolvedRun; suite: PreparedSuite; from: number; refused: number }
}

export interface GateSuiteResult {
  run: string
  suite: string
  name: string
  tasks: number
  repeats: number
  counts: GateCounts
  report: ArtifactRef
  evidence: ArtifactRef
}

export interface RejectionFineTuneInput {
  plan: ResolvedRun
  policy: PolicyRef
  suite: string
  paused?: boolean
}

export interface ReinforceInput {
  plan: ResolvedRun
  /** Index into the recipe's stages. */
  stageIndex: number
  policy: PolicyRef
  suite: string
  /** First iteration of this execution, from 1; continue-as-new moves it. */
  iteration?: number
  paused?: boolean
  stopAfter?: number | null
  /** The policy comes from records: nothing has published it in this execution. */
  unpublished?: true
}

export interface TrainingStageResult {
  policy: PolicyRef
  iterations: number
  /** As in `ReinforceInput`. */
  unpublished?: true
}

export interface RolloutInput {
  run: string
  stage: string
  iteration: number
  policy: PolicyRef
  suite: string
  plan: ArtifactRef
  tasks: number
  groupSize: number
  maxReplacements: number
  maxOpenGroups: number
  /** Continue-as-new state. */
  from?: number
  counts?: RolloutCounts
  paused?: boolean
}

export interface RolloutCounts {
  groups: number
  episodes: number
  infra: number
  resolved: number
  turns: number
  /** Failure code of the last episode lost to infrastructure. */
  failure: string | null
}

export interface PromptGroupInput {
  run: string
  stage: string
  iteration: number
  policy: string
  suite: string
  taskId: string
  groupSize: number
  maxReplacements: number
}

export interface PromptGroupResult {
  taskId: string
  valid: number
  episodes: number
  infra: number
  resolved: number
  turns: number
  failure: string | null
}

export interface EpisodeInput {
  run: string
  stage: string
  iteration: number
  policy: string
  suite: string
  taskId: string
  index: number
}

export interface EpisodeResult {
  episode: string
  disposition: Disposition
  verdict: VerdictKind | null
  turns: number
  failure: string | null
  /** Found in the records of an earlier execution, nothing was played. */
  recalled?: true
}

/** Answer of the query `progress`, and what updates return. */
export interface RunProgress {
  run: string | null
  phase: string
  paused: boolean
  stopAfterIteration: number | null
  scores: StageScore[]
  /** What the run waits for, since when (ISO time). */
  waitingFor: { what: string; since: string } | null
}
