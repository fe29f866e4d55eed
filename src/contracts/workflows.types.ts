/** Inputs and results of every workflow: one JSON object each, nearly all optional for the roots. References and small scalars only. */
import type { ArtifactRef } from './artifacts.types.ts'
import type { Disposition, VerdictKind } from './episodes.types.ts'
import type { GateCounts } from './gates.types.ts'
import type { GradingCounts, GradingScore } from './grading.types.ts'
import type { NightVerdict } from './nights.types.ts'
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
  /** Commit that the run is started for, as CI knows it: its search attribute `GitSha`. */
  gitSha?: string
}

export interface TrainAgentResult {
  run: string
  policy: string
  stages: StageScore[]
  report: ArtifactRef
  /** Whether the last policy was promoted, and by what; absent in runs of earlier versions. */
  promotion?: { number: number | null; why: string }
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
  /** As in `TrainAgentInput`. */
  gitSha?: string
  /** `base`, `promoted`, `kept`, or a policy version. @default what the recipe says */
  policy?: string
  /** Evaluations of one series are held against each other, and make one trend. @default the recipe's name */
  series?: string
  /** Child form: set by `trainAgent`. */
  child?: EvaluateChild
}

export interface EvaluateChild {
  plan: ResolvedRun
  name: string
  policy: PolicyRef
  /** One of `evaluate.suites`. @default the held-out one */
  suite?: string
  /** The iteration that trained the policy; absent for the base, and in executions that an earlier version began. */
  after?: TrainedIteration
  /** Nothing has published the policy in this execution: publish it before the first episode. @default false */
  publish?: true
  paused?: boolean
  concurrency?: number | null
}

/** `rft` has the iteration 0. */
export interface TrainedIteration {
  stage: string
  iteration: number
}

export interface EvaluateResult extends StageScore {
  run: string
  evaluation: ArtifactRef
  /** Absent in runs of earlier versions. */
  evidence?: EvaluationEvidence
  /** How it stands against the last night and the named baseline; absent where nothing was asked for. */
  verdicts?: NightVerdict[]
}

/** What rules about a score are judged by: a client that sees Temporal alone needs no record for them. */
export interface EvaluationEvidence {
  /** 95 % interval of pass@1: see docs/statistics.md. */
  interval: { low: number; high: number } | null
  /** Share of the attempts that were asked for which gave a verdict. */
  graded: number
}

/** Reads the record of an evaluation through Temporal, for clients that have no artifact store. */
export interface ReadEvaluationInput {
  run: string
  /** @default the last held-out evaluation */
  name?: string
  /** First byte of the page. @default 0 */
  from?: number
}

/** A part of a packed `EvaluationDocument`: `platform/packed-pages.ts` packs and opens it. */
export interface EvaluationPage {
  /** Of the whole packed document: pages of two documents are never joined. */
  sha256: string
  bytes: number
  /** Base64. */
  data: string
  /** First byte of the next page, null after the last. */
  next: number | null
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
  concurrency?: number | null
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
  /** `kept`: the recipe asks for every promotion that is still stored. */
  policies?: 'kept'
  /** Its evaluations join a series; absent in training runs, and in runs of earlier versions. */
  nights?: true
  /** What it can be found by: search attributes; absent in runs of earlier versions. */
  labels?: RunLabels
  /** Where people read trajectories, with a slash at its end; absent where the control worker knows no such place. */
  viewer?: string
  /** Set by the root for its children; absent in runs of earlier versions. */
  board?: BoardAddress
  /** What an evaluation started alone is called. Absent in training runs, and in runs of earlier versions: those are called `nightly`, and
   *  their children have ids of a training run. */
  evaluation?: string
  /** The root has proven that no training task is evaluated. Absent in runs that train nothing, and in runs of earlier versions. */
  disjoint?: true
}

/** What a run can be found by. */
export interface RunLabels {
  model: string
  /** What the held-out suite is made from: `<data set>/<split>`, a file's name, `synthetic/eval`. */
  split: string
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
  /** Whether the stage has ended: all iterations are done, a plateau was reached, or the evaluation after it has begun. */
  isDone: boolean
}

export interface PreparedSuite {
  suite: string
  name: string
  tasks: number
  /** The run has gated it already. */
  gated?: true
  /** Of `split: newest`: `<data set>/<split>` that the run was pinned to. */
  split?: string
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
  concurrency?: number | null
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
  concurrency?: number | null
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
  board?: BoardAddress
  /** Instead of `maxOpenGroups`, where an operator said so. */
  concurrency?: number | null
  /** Continue-as-new state. */
  from?: number
  counts?: RolloutCounts
  paused?: boolean
  /** Tasks to be played again before the next one of the plan. */
  again?: string[]
  /** Absent in the first part. */
  part?: RolloutPart
}

/** A long rollout is played in parts, each the child of the one before, which ends the groups that it has open. */
export interface RolloutPart {
  /** Workflow id of the first part: all groups are named after it. */
  rollout: string
  /** From 2. */
  number: number
  /** Groups that earlier parts have open still; the signal `handed` brings each when it has ended. */
  handed: number
  /** Those of them that have been open longest, as in `RolloutReport`. */
  slowest: RolloutReport['slowest']
}

export interface RolloutCounts {
  groups: number
  episodes: number
  infra: number
  resolved: number
  turns: number
  /** Failure code of the last episode lost to infrastructure. */
  failure: string | null
  /** For the table that people read; absent in rollouts of earlier versions. */
  tally?: RolloutTally
  /** The part was told that another execution plays its tasks: these are not the counts of all. */
  superseded?: true
}

/** What a rollout keeps of its groups beyond the counts. */
export interface RolloutTally {
  /** ms since 1970. */
  since: number
  endings: Record<string, number>
  failures: Record<string, number>
  errors: TaskError[]
  /** Sums of the shares of resolved attempts of graded tasks. */
  score: { tasks: number; attempts: number; sum: number; squares: number }
  /** Groups that ended with too few valid episodes, which `requeue` may play again. */
  incomplete: PromptGroupResult[]
  /** Number of such groups that earlier executions no longer carry. */
  forgotten?: number
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
  /** Heartbeat timeout of the steps of its episodes, s. @default that of the preset */
  stepHeartbeatS?: number
}

export interface PromptGroupResult {
  taskId: string
  valid: number
  episodes: number
  infra: number
  resolved: number
  turns: number
  failure: string | null
  /** Absent in groups of earlier versions. */
  endings?: Record<string, number>
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

/** An episode with what else its workflow is told. */
export interface EpisodeOrder extends EpisodeInput {
  /** As for its group. */
  stepHeartbeatS?: number
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

/** Answer of the query `progress` of a root. */
export interface RunProgress {
  run: string | null
  phase: string
  paused: boolean
  /** `soft`: what is open goes on; `hard`: episodes hold after the step under way. Null where nothing is paused. */
  pause: PauseMode | null
  limits: RunLimits
  /** What the open rollout last told the root; its own query `progress` is newer. Null where none is open. */
  rollout: RolloutReport | null
  stopAfterIteration: number | null
  scores: StageScore[]
  /** What the run waits for, since when (ISO time). */
  waitingFor: { what: string; since: string } | null
  /** Of the phase, where it plays no episodes; absent where there is nothing to count, and in answers of earlier versions. */
  work?: WorkCount
}

/** How far countable work is that plays no episodes. Answer of the query `progress` of a gate, of its own part of a suite. */
export interface WorkCount {
  unit: 'tasks' | 'patches'
  done: number
  total: number
  /** Of those done: refused tasks, patches without a verdict. */
  failed: number
}

export type PauseMode = 'soft' | 'hard'

/** What operators may change while a run is under way. Nothing in here changes what an episode is or how it is scored. */
export interface RunLimits {
  /** Tasks (of a grading: patches) under way at once; null: as the recipe says. */
  concurrency: number | null
}

/** Answer of every update: the state that now holds, and whether the update changed it. */
export interface SteeredRun extends RunProgress {
  changed: boolean
  /** Why nothing changed, or what happens next; null where the state says it all. */
  note: string | null
}

/** Where rollouts tell how far they are. */
export interface BoardAddress {
  workflowId: string
  /** When the run began, ms since 1970: reports become rarer as a run grows old. */
  since: number
}

/** How far one rollout is. */
export interface RolloutReport {
  workflowId: string
  stage: string
  iteration: number
  /** ISO time. */
  at: string
  groups: number
  tasks: number
  episodes: number
  resolved: number
  /** Episodes by how they ended: a disposition, or `could-not-grade`. */
  endings: Record<string, number>
  /** pass@1 so far with its 95 % interval; null before the first graded task. */
  score: { mean: number; low: number; high: number; tasks: number } | null
  /** ISO time; null while it cannot be told. */
  eta: string | null
  /** The tasks that have been open longest, the oldest first, at most five. */
  slowest: { task: string; since: string }[]
  /** The last tasks that lost an episode to infrastructure, the newest first, at most five. */
  errors: TaskError[]
  /** Lost episodes by failure code. */
  failures: Record<string, number>
  /** Workflow id of the next part, which knows more; absent while there is none. */
  continuedIn?: string
}

export interface TaskError {
  task: string
  failure: string
  at: string
}

/** Answer of the query `failures`. */
export interface RunFailures {
  run: string | null
  /** Why the run itself failed, null while it has not. */
  failed: string | null
  /** Of the open rollout, or of the last one: lost episodes by code, and the last tasks that lost one. */
  byCode: Record<string, number>
  last: TaskError[]
}

/** Answer of the query `config`: what the run was resolved to, and what operators have changed since. */
export interface RunConfig {
  /** Null until the recipe is resolved. The recipe itself is the artifact `resolved.recipe`. */
  resolved: ResolvedRun | null
  limits: RunLimits
  stopAfterIteration: number | null
}
