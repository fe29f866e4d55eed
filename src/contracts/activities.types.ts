/**
 * Activities that workflows may call, grouped by task queue. The factories in `src/activities`
 * implement these; workflows import only these types. Every input is one object of references and small scalars.
 */
import type { AlarmReceiver, AlarmRules, FoundAlarms } from './alarms.types.ts'
import type { ArtifactRef } from './artifacts.types.ts'
import type { Disposition } from './episodes.types.ts'
import type { GateCounts } from './gates.types.ts'
import type { GradingCounts, GradingScore, ShortVerdict } from './grading.types.ts'
import type { NightVerdict } from './nights.types.ts'
import type { PolicyRef } from './policy.types.ts'
import type { SandboxHandle } from './sandbox.types.ts'
import type {
  EpisodeInput,
  EpisodeResult,
  EvaluationEvidence,
  EvaluationPage,
  GradePredictionsInput,
  OpenedGrading,
  PreparedSuite,
  ReadEvaluationInput,
  RecalledRun,
  ResolvedRun,
  StageScore,
  TrainedIteration,
} from './workflows.types.ts'

/** Queue `control`: short bookkeeping. */
export interface ControlActivities {
  /** `recalled` is present only if the run has records of an earlier execution. */
  resolveRecipe(input: ResolveRecipeInput): Promise<ResolvedRun & { recalled?: RecalledRun }>
  /**
   * Synthesises or reads the suite and stores its tasks.
   * @param input.which `train`, `heldOut`, or the name of one of `evaluate.suites`
   */
  prepareSuite(input: { run: string; which: string }): Promise<PreparedSuite>
  /** Checks that no training task is evaluated. */
  requireDisjoint(input: { run: string; train: string; evaluated: string[] }): Promise<{ overlapping: number }>
  /** Number of tasks that may be gated concurrently now: the recipe's, or else the capacity of the hosts. */
  gateWidth(input: { run: string }): Promise<{ width: number }>
  /** Collects the gates of a suite's tasks into the run's gated list. */
  closeGate(input: { run: string; suite: string }): Promise<{ admitted: number; refused: number }>
  planIteration(input: PlanIterationInput): Promise<PlannedIteration>
  /** Task ids of a plan, at most 50 a page to keep payloads small. */
  readPlanPage(input: { plan: ArtifactRef; from: number; count: number }): Promise<string[]>
  /** Whether the evaluations of a stage have stopped improving, by its recipe's rule. */
  judgePlateau(input: { run: string; stage: string; iteration: number }): Promise<{ plateau: boolean }>
  /**
   * Resolves a policy to its version. Imports a base policy.
   * @param input.policy `base`, `promoted`, `recipe` (what `evaluate.policy` says) or a version
   */
  resolvePolicy(input: { run: string; policy: string }): Promise<PolicyRef>
  /** The promotions that are still stored, newest first. `kept` refers to them in this run. */
  keptPolicies(input: { run: string }): Promise<{ policies: PolicyRef[] }>
  /** Promotes by the recipe's rule. `number` is null if the rule refused the policy; older workers omit `why`. */
  promote(input: {
    run: string
    policy: PolicyRef
    score: StageScore
  }): Promise<{ number: number | null; why?: string }>
  /** The final record of an episode that was never graded (infra, cancelled). */
  recordUngraded(input: EpisodeInput & { disposition: Disposition; failure: string | null }): Promise<EpisodeResult>
  /**
   * Cancels the open children of a workflow's earlier executions and waits for their end.
   * @param input.before ms since 1970, so that a later execution keeps its children
   */
  cancelLeft(input: { workflowId: string; before: number }): Promise<void>
  /** Claims the run's name, and stores what it grades and with which limits. */
  openGrading(input: OpenGradingInput): Promise<OpenedGrading>
  /** Reads schedules, runs and nights, and claims new alarms. `alarms`: ids to send, oldest first. */
  findAlarms(input: AlarmRules & { receiver: AlarmReceiver }): Promise<FoundAlarms>
  /** Sends one alarm unless it was sent already. */
  sendAlarm(input: { alarm: string; receiver: AlarmReceiver }): Promise<{ sent: boolean }>
  /** Records why a patch has no verdict after all of its graders failed. */
  recordUngradedPatch(input: { run: string; index: number; failure: string }): Promise<ShortVerdict>
}

/** Kind of a run's root workflow. */
export type RunKind = 'train' | 'eval' | 'grade' | 'gate'

export interface OpenGradingInput extends Omit<GradePredictionsInput, 'opened' | 'from' | 'counts' | 'paused'> {
  workflowId: string
  firstExecutionRunId: string
  /** `YYYY-MM-DD` of the workflow's start: part of the name. */
  date: string
}

export interface ResolveRecipeInput {
  recipe: string
  recipeText?: string
  overrides?: Record<string, unknown>
  run?: string
  /** The workflow that owns the run, for put-if-absent of the run's name. */
  workflowId: string
  firstExecutionRunId: string
  kind: RunKind
  /** Of an evaluation: what it was asked to evaluate. @default `recipe` */
  policy?: string
  /** `YYYY-MM-DD` of the workflow's start: part of the name. */
  date: string
}

export interface PlanIterationInput {
  run: string
  stage: string
  iteration: number
  suite: string
  /** Version of the policy that is to play; absent in executions that an earlier version began. */
  policy?: string
  /** Of an evaluation: the iteration that its records must say has trained the policy. */
  after?: TrainedIteration
  /** The run has a record of its suites, of which this must be one. */
  disjoint?: true
}

export interface PlannedIteration {
  plan: ArtifactRef
  tasks: number
  groupSize: number
  maxReplacements: number
  maxOpenGroups: number
  /** The run has left the stage before this iteration, which is not begun: `plan` is that of the iteration before. */
  over?: true
  /** All episodes have ended and the iteration has its ledger or evaluation. */
  collected?: true
  /** The iteration has trained. `policy` is null if it trained nothing. */
  finished?: { policy: PolicyRef | null }
  /** The evaluation has its record. */
  evaluated?: { score: JudgedScore; evaluation: ArtifactRef }
  /** Rounds of further problems for groups without a spread. Absent if the recipe has none. */
  refill?: number
}

/** A score and the figures that its rules use. */
export type JudgedScore = StageScore & { evidence?: EvaluationEvidence }

export interface PlanRefillInput {
  run: string
  stage: string
  iteration: number
  suite: string
  /** From 1. */
  round: number
}

/** Queue `sandbox`: any host. */
export interface SandboxActivities {
  /** Runs before any gate, and ends the run if images of its suites cannot be found. */
  checkImages(input: { run: string; suites: string[] }): Promise<ImageCheck>
  /** Verifies the image and grades for some minutes. `done` if every repeat has its record. */
  gateTask(input: { run: string; suite: string; index: number; step: number }): Promise<GateStep>
  /** Opens a sandbox, unless the episode has already ended. */
  openSandbox(input: EpisodeInput & { placement: number; owner: string }): Promise<SandboxHandle | RecordedEnding>
  /** Grades one patch of a grading run, by its position in the plan. */
  gradePatch(input: { run: string; index: number }): Promise<ShortVerdict>
  gradeSubmission(
    input: EpisodeInput & { disposition: Disposition; patch: ArtifactRef | null; owner: string },
  ): Promise<EpisodeResult>
}

/** Records of an episode from an earlier execution. */
export type RecordedEnding =
  | { kind: 'result'; result: EpisodeResult }
  | { kind: 'ended'; disposition: Disposition; patch: ArtifactRef | null }

/** Number of distinct images and where they are. */
export interface ImageCheck {
  images: number
  /** Images that the engine lacks. */
  lacking: number
  /** Images that the engine lacks and their registry was searched for. */
  asked: number
  missing: number
  unknown: number
}

export interface GateStep {
  done: boolean
  /** The task is admitted. False while this is unknown. */
  ok: boolean
}

/** Queue `sandbox.<host>.<boot>`: the host that holds the sandbox. */
export interface HostActivities {
  advanceEpisode(
    input: EpisodeInput & { sandbox: SandboxHandle; step: number; placement: number },
  ): Promise<EpisodeProgress>
  captureSubmission(input: EpisodeInput & { sandbox: SandboxHandle }): Promise<ArtifactRef>
  closeSandbox(input: { name: string }): Promise<void>
  /** Reports in its heartbeats what the host holds and has room for, until its worker stops or twelve hours have passed. */
  attendHost(input: { host: string }): Promise<void>
}

export interface EpisodeProgress {
  /** Turns committed so far. */
  turns: number
  /** Null: the episode continues. */
  disposition: Disposition | null
  /** The host is drained: the episode goes on elsewhere. Absent from older workers. */
  moving?: true
}

/** Queue `trainer`. */
export interface TrainerActivities {
  runTrainingJob(input: TrainingJobInput): Promise<TrainingJobResult>
  /** Loads the policy on every server and verifies version and canary. */
  publishPolicy(input: { run: string; policy: PolicyRef }): Promise<void>
  releasePolicies(input: { run: string }): Promise<void>
}

export interface TrainingJobInput {
  run: string
  stage: string
  kind: 'rft' | 'dapo'
  iteration: number
  slice: number
  batch: ArtifactRef
  policy: PolicyRef
}

export interface TrainingJobResult {
  policy: PolicyRef
  steps: number
  loss: number
  jobKey: string
  /** Alarms that hold the run before its next iteration, in words; absent where there are none, and from older workers. */
  hold?: string
}

/** Queue `artifacts`: aggregation, so that it never blocks workflow tasks. */
export interface ArtifactActivities {
  /** Further problems for the groups of an iteration that have no spread; no tasks where each has one. */
  planRefill(input: PlanRefillInput): Promise<PlannedIteration>
  /** Rewards, advantages, selection; writes groups, batch files and the iteration's ledger. */
  buildBatch(input: {
    run: string
    stage: string
    iteration: number
    policy: PolicyRef
    suite: string
  }): Promise<BuiltBatch>
  summarizeEvaluation(input: { run: string; name: string; stage: string; policy: PolicyRef; suite: string }): Promise<{
    score: JudgedScore
    evaluation: ArtifactRef
  }>
  /** One page of an evaluation's record and of what stands beside it. */
  readEvaluation(input: ReadEvaluationInput): Promise<EvaluationPage>
  /** Holds an evaluation against the last night and a baseline, and adds it to its series. */
  recordNight(input: {
    run: string
    name: string
    at: string
    series: string
    role: string
  }): Promise<{ verdicts: NightVerdict[] }>
  /** Scores and counts of a grading run from its verdicts. */
  closeGrading(input: { run: string }): Promise<ClosedGrading>
  /** @param input durations in seconds by phase, in order */
  writeReport(input: {
    run: string
    durations: Record<string, number>
    /** Every score that the workflow is about to return; absent in executions that an earlier version began. */
    scores?: StageScore[]
    /** The run must have its decision on promotion. */
    promoted?: true
  }): Promise<{ html: ArtifactRef; json: ArtifactRef }>
  /** Report and evidence of a gated suite. */
  writeGateReport(input: { run: string; suite: string }): Promise<WrittenGateReport>
}

export interface WrittenGateReport {
  counts: GateCounts
  report: ArtifactRef
  /** JSON Lines that `longhaul tasks import --evidence` reads. */
  evidence: ArtifactRef
}

export interface ClosedGrading {
  result: ArtifactRef
  counts: GradingCounts
  graded: GradingScore | null
  official: GradingScore | null
  /** Verdicts that differ from the first ones. */
  changed: number
}

export interface BuiltBatch {
  /** One per training job, in order; empty when nothing is worth training on. */
  batches: ArtifactRef[]
  trajectories: number
  groups: number
  groupsKept: number
  episodes: number
  infra: number
  meanReward: number
  resolvedRate: number
  meanTurns: number
}

/** Heartbeat of `advanceEpisode`: phases in order of execution. */
export type EpisodePhase = 'resuming' | 'sampling' | 'executing' | 'recording'
