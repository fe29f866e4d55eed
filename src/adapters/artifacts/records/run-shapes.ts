/** What a run leaves behind: evaluations and nights, plans and ledgers, trainings and their policies. */
import type { Alarm, AlarmCounts, AlarmSent, AlarmsSince } from '../../../contracts/alarms.types.ts'
import type {
  CodeRecord,
  DurationsRecord,
  JobAttemptTime,
  JobTimeRecord,
  LineageRecord,
  PolicyHash,
} from '../../../contracts/costs.types.ts'
import type {
  IterationPlan,
  PlayerRecord,
  PushedRecipe,
  RefillPlan,
  RemovalBegun,
  RemovalSign,
  RemovalTakenUp,
  RunClaim,
} from '../../../contracts/run-records.types.ts'
import type { MeasuredRecord, TrackedId } from '../../../contracts/trackers.types.ts'
import type { Ledger, LedgerEntry, LedgerTotals } from '../../../domain/ledger/ledger.ts'
import type { IterationScore, PlateauRecord } from '../../../domain/rewards/plateau.ts'
import type { StagePool } from '../../../domain/rewards/stage-rules.ts'
import {
  type Misfit,
  absentable,
  amount,
  anything,
  count,
  flag,
  instant,
  instantMs,
  integer,
  listOf,
  mapOf,
  nullable,
  number,
  object,
  oneOf,
  partialMapOf,
  ruled,
  share,
  size,
  text,
  variants,
} from './shape.ts'
import type { EnginesRecord, PolicyRef } from '../../../contracts/policy.types.ts'
import type {
  JobPlanRecord,
  KeptPolicies,
  Promotion,
  TrainingAlarm,
  TrainingRecord,
} from '../../../contracts/training.types.ts'
import type { TreeFile, WeightsRecord } from '../weights/stored-tree.ts'
import { DISPOSITIONS } from '../../../contracts/episodes.types.ts'
import type {
  AuditDifference,
  AuditedScore,
  EvaluatedTask,
  EvaluationConditions,
  EvaluationCost,
  EvaluationRecord,
  StoredInterval,
  StoredMean,
} from '../../../contracts/evaluations.types.ts'
import type { ComparedTaskCounts, NightPoint, NightRecord, NightVerdict } from '../../../contracts/nights.types.ts'
import type { PriceRecipe } from '../../../contracts/recipe.types.ts'
import type { StageScore } from '../../../contracts/workflows.types.ts'
import type { JudgedNight, PromotionDecision } from '../../../domain/statistics/judge-night.ts'
import { auditReasons, limits, sampling } from './episode-shapes.ts'
import { suiteOrigin } from './suite-shapes.ts'

const stageScore = object<StageScore>({
  audited: absentable(object<{ passAt1: number; sem: number }>({ passAt1: share, sem: amount })),
  name: text,
  policy: text,
  passAt1: share,
  sem: amount,
  tasks: count,
  attempts: amount,
})

const interval = nullable(object<StoredInterval>({ low: number, high: number }))
/** Means may be negative: times are differences of clocks of several machines. */
const mean = object<StoredMean>({ mean: number, sem: amount, tasks: count })

export const prices = object<PriceRecipe>({
  currency: text,
  perMillionTokens: nullable(
    object<NonNullable<PriceRecipe['perMillionTokens']>>({
      input: amount,
      cachedInput: nullable(amount),
      output: amount,
    }),
  ),
  machines: listOf(object<PriceRecipe['machines'][number]>({ name: text, count: amount, perHour: amount })),
})

const outcomes = listOf(oneOf(0, 1))

const evaluatedTask = ruled(
  object<EvaluatedTask>({
    taskId: text,
    repo: text,
    rowHash: text,
    createdAt: nullable(text),
    outcomes,
    lost: size,
    replaced: absentable(size),
    audited: absentable(outcomes),
    turns: listOf(size),
    sampledTokens: listOf(nullable(count)),
    wallSeconds: listOf(nullable(number)),
    promptTokens: absentable(listOf(nullable(count))),
    cachedTokens: absentable(listOf(nullable(count))),
    cost: absentable(listOf(nullable(number))),
  }),
  equallyLong,
)

/** All lists run over the same attempts. */
function equallyLong(task: EvaluatedTask): Misfit | null {
  const { audited, turns, sampledTokens, wallSeconds, promptTokens, cachedTokens, cost } = task
  const lists = { audited, turns, sampledTokens, wallSeconds, promptTokens, cachedTokens, cost }
  for (const [name, list] of Object.entries(lists)) {
    if (list === undefined || list.length === task.outcomes.length) continue
    return { at: [name], expected: `one for each of ${task.outcomes.length} outcomes`, got: String(list.length) }
  }
  return null
}

const auditedScore = object<AuditedScore>({
  passAt1: share,
  sem: amount,
  interval,
  tasks: count,
  attempts: size,
  resolved: count,
  paid: count,
  unaudited: count,
  differences: listOf(
    object<AuditDifference>({
      taskId: text,
      episode: text,
      because: oneOf('suspected-hack', 'audit-void', 'unaudited'),
      reasons: auditReasons,
      detail: nullable(text),
    }),
  ),
})

export const evaluation = object<EvaluationRecord>({
  schema: oneOf('longhaul.evaluation/2'),
  run: text,
  name: text,
  stage: text,
  suite: text,
  origin: absentable(suiteOrigin),
  score: stageScore,
  semOver: oneOf('runs', 'tasks'),
  taskSem: amount,
  interval,
  bootstrap: nullable(
    object<NonNullable<EvaluationRecord['bootstrap']>>({ low: number, high: number, draws: count, seed: number }),
  ),
  official: object<EvaluationRecord['official']>({
    passAt1: share,
    sem: amount,
    interval,
    tasks: count,
    attempts: size,
  }),
  audited: absentable(auditedScore),
  attempts: size,
  passAtK: listOf(object<EvaluationRecord['passAtK'][number]>({ k: size, any: nullable(mean), all: nullable(mean) })),
  tasks: listOf(evaluatedTask),
  dispositions: partialMapOf(DISPOSITIONS, count),
  verdicts: partialMapOf(['resolved', 'unresolved', 'could-not-grade', 'none'], count),
  reasons: mapOf(count),
  infra: count,
  suspectedHacks: count,
  couldNotGrade: count,
  turns: mean,
  sampledTokens: nullable(mean),
  wallSeconds: nullable(mean),
  promptTokens: absentable(mean),
  cachedTokens: absentable(mean),
  cost: absentable(
    object<EvaluationCost>({ prices, attempt: nullable(mean), graded: number, lost: number, unknown: count }),
  ),
  totals: object<EvaluationRecord['totals']>({
    turns: count,
    formatErrorTurns: count,
    sampledTokens: count,
    wallSeconds: number,
    gradeSeconds: amount,
    promptTokens: absentable(count),
    cachedTokens: absentable(count),
  }),
  gradedByGate: count,
  conditions: nullable(
    object<EvaluationConditions>({
      scaffold: text,
      demonstration: flag,
      sampling,
      limits,
      gradingProfiles: listOf(text),
    }),
  ),
})

/** What the evaluations of version 1 are derived again from. */
export const evaluation1 = object<{ schema: 'longhaul.evaluation/1'; run: string; name: string; stage: string }>({
  schema: oneOf('longhaul.evaluation/1'),
  run: text,
  name: text,
  stage: text,
})

const nightOutcome = oneOf('regressed', 'improved', 'not-worse', 'cannot-exclude', 'not-compared')
const against = oneOf('last', 'baseline')
const otherSide = nullable(
  object<{ run: string; name: string; policy: string }>({ run: text, name: text, policy: text }),
)
const judgement = {
  outcome: nightOutcome,
  statement: text,
  difference: nullable(object<NonNullable<NightVerdict['difference']>>({ mean: number, low: number, high: number })),
  tasks: object<ComparedTaskCounts>({ common: count, onlyBefore: count, onlyAfter: count, otherRows: count }),
}

export const nightVerdict = object<NightVerdict>({ against, before: otherSide, ...judgement })

export const night = object<NightRecord>({
  schema: oneOf('longhaul.night/1'),
  series: text,
  role: text,
  verdicts: listOf(nightVerdict),
  common: listOf(text),
  night: object<NightPoint>({
    series: text,
    run: text,
    name: text,
    at: instant,
    policy: text,
    split: text,
    revision: nullable(text),
    tasks: count,
    attempts: size,
    passAt1: share,
    interval,
    lost: share,
    turns: amount,
    sampledTokens: nullable(amount),
    cost: nullable(object<NonNullable<NightPoint['cost']>>({ mean: number, currency: text })),
    outcomes: listOf(object<NightPoint['outcomes'][number]>({ against, outcome: nightOutcome })),
  }),
})

export const promotionDecision = object<PromotionDecision>({
  schema: oneOf('longhaul.promotion-decision/1'),
  run: text,
  policy: text,
  gate: oneOf('always', 'notWorse'),
  promoted: flag,
  against: otherSide,
  judged: nullable(object<JudgedNight>({ ...judgement, common: listOf(text) })),
  why: text,
})

export const runClaim = object<RunClaim>({
  schema: oneOf('longhaul.run/1'),
  run: text,
  kind: oneOf('train', 'eval', 'grade', 'gate'),
  recipe: text,
  recipeHash: text,
  workflowId: text,
  firstExecutionRunId: text,
  startedAt: absentable(instant),
  evaluation: absentable(text),
  policy: absentable(text),
})

export const player = object<PlayerRecord>({
  schema: oneOf('longhaul.player/1'),
  run: text,
  workflowId: text,
  runId: text,
})

const plan = {
  schema: oneOf('longhaul.plan/1'),
  run: text,
  stage: text,
  iteration: size,
  suite: text,
  groupSize: size,
  taskIds: listOf(text),
}

export const iterationPlan = object<IterationPlan>(plan)
export const refillPlan = object<RefillPlan>({ ...plan, round: size, kept: size, withoutSpread: size })

export const pool = object<StagePool>({
  schema: oneOf('longhaul.pool/1'),
  run: text,
  stage: text,
  over: text,
  kept: listOf(text),
  dropped: listOf(
    object<StagePool['dropped'][number]>({ taskId: text, reason: oneOf('solved-often', 'never-solved', 'unseen') }),
  ),
})

export const plateau = object<PlateauRecord>({
  schema: oneOf('longhaul.plateau/1'),
  run: text,
  stage: text,
  iteration: size,
  rule: object<PlateauRecord['rule']>({ metric: oneOf('heldOut.pass1'), window: size, minGain: number }),
  scores: listOf(object<IterationScore>({ iteration: size, passAt1: share })),
  plateau: flag,
  gain: nullable(number),
  last: size,
  before: size,
})

const DROP_REASONS = [
  'few',
  'outcome',
  'std',
  'unresolved',
  'suspected-hack',
  'audit-void',
  'unaudited',
  'over-task-limit',
  'zero-advantage',
  'unpaired',
  'overlong',
  'over-step-limit',
  'no-loss-token',
] as const
const EXCLUSIONS = ['infra', 'cancelled', 'stale', 'could-not-grade'] as const
const UNPAID = ['suspected-hack', 'audit-void', 'unaudited'] as const

const unpaid = absentable(oneOf(...UNPAID))

const ledgerEntry = variants<LedgerEntry, 'fate'>('fate', {
  trained: object<Extract<LedgerEntry, { fate: 'trained' }>>({
    episode: text,
    fate: oneOf('trained'),
    batch: text,
    unpaid,
  }),
  dropped: object<Extract<LedgerEntry, { fate: 'dropped' }>>({
    episode: text,
    fate: oneOf('dropped'),
    because: oneOf(...DROP_REASONS),
    unpaid,
  }),
  excluded: object<Extract<LedgerEntry, { fate: 'excluded' }>>({
    episode: text,
    fate: oneOf('excluded'),
    because: oneOf(...EXCLUSIONS),
    unpaid,
  }),
  evaluated: object<Extract<LedgerEntry, { fate: 'evaluated' }>>({
    episode: text,
    fate: oneOf('evaluated'),
    in: text,
    unpaid,
  }),
})

export const ledger = object<Ledger>({
  schema: oneOf('longhaul.ledger/1'),
  run: text,
  stage: text,
  iteration: size,
  entries: listOf(ledgerEntry),
  totals: object<LedgerTotals>({
    episodes: count,
    trained: count,
    evaluated: count,
    dropped: partialMapOf(DROP_REASONS, count),
    excluded: partialMapOf(EXCLUSIONS, count),
    unpaid: absentable(partialMapOf(UNPAID, count)),
  }),
})

export const code = object<CodeRecord>({
  schema: oneOf('longhaul.code/1'),
  version: text,
  revision: nullable(text),
  filesSha256: text,
  node: text,
})

/** Differences of the server's clock, which may be set back. */
export const durations = object<DurationsRecord>({ schema: oneOf('longhaul.durations/1'), durations: mapOf(number) })

export const jobTime = object<JobTimeRecord>({
  schema: oneOf('longhaul.job-time/1'),
  stage: text,
  iteration: size,
  slice: size,
  device: oneOf('cpu', 'cuda'),
  ranks: size,
  attempts: listOf(
    object<JobAttemptTime>({
      fence: integer,
      startedAtMs: nullable(instantMs),
      endedAtMs: nullable(instantMs),
      end: nullable(text),
    }),
  ),
})

export const measured = object<MeasuredRecord>({
  schema: oneOf('longhaul.measured/1'),
  record: text,
  atMs: instantMs,
})

export const tracked = object<TrackedId>({ schema: oneOf('longhaul.tracked/1'), tracker: text, id: text })

export const removalBegun = object<RemovalBegun>({
  schema: oneOf('longhaul.removal/1'),
  run: text,
  id: absentable(text),
  begunAtMs: absentable(instantMs),
})

export const removalTakenUp = object<RemovalTakenUp>({ id: text, atMs: instantMs })
export const removalSign = object<RemovalSign>({ run: text })

export const alarm = object<Alarm>({
  schema: oneOf('longhaul.alarm/1'),
  id: text,
  kind: oneOf('regression', 'failure', 'skipped', 'blocker'),
  title: text,
  text,
  run: nullable(text),
  series: nullable(text),
  workflowId: nullable(text),
  link: nullable(text),
  at: instant,
})

export const alarmSent = object<AlarmSent>({
  schema: oneOf('longhaul.alarm-sent/1'),
  id: text,
  at: nullable(instant),
})

export const alarmCounts = object<AlarmCounts>({
  schema: oneOf('longhaul.alarm-counts/1'),
  schedule: text,
  skippedOverlap: amount,
  missedCatchup: amount,
})

export const alarmsSince = object<AlarmsSince>({ schema: oneOf('longhaul.alarms-since/1'), at: instant })

export const pushedRecipe = object<PushedRecipe>({ schema: oneOf('longhaul.pushed-recipe/1'), name: text, text })

export const policyRef = object<PolicyRef>({
  version: text,
  uri: text,
  manifestSha256: text,
  globalStep: count,
  checkpointUri: nullable(text),
  checkpointSha256: nullable(text),
})

export const promotion = object<Promotion>({
  schema: oneOf('longhaul.promotion/1'),
  number: count,
  run: text,
  policy: policyRef,
  score: stageScore,
})

export const keptPolicies = object<KeptPolicies>({
  schema: oneOf('longhaul.kept-policies/1'),
  policies: listOf(policyRef),
})

/** The steps are what the trainer logged. Their readers check each figure. */
export const training = object<TrainingRecord>({
  schema: oneOf('longhaul.training/1'),
  stage: text,
  iteration: size,
  slice: size,
  policy: text,
  steps: listOf(mapOf(anything)),
  alarms: listOf(
    object<TrainingAlarm>({
      step: integer,
      metric: text,
      value: nullable(number),
      limit: number,
      side: oneOf('above', 'below'),
    }),
  ),
})

const policyHash = object<PolicyHash>({ version: text, manifestSha256: nullable(text) })

export const lineage = object<LineageRecord>({
  schema: oneOf('longhaul.lineage/1'),
  policy: policyHash,
  parent: policyHash,
  by: object<LineageRecord['by']>({ run: text, stage: text, iteration: size, slice: size }),
  jobKey: text,
  batchSha256: text,
})

export const engines = object<EnginesRecord>({
  schema: oneOf('longhaul.engines/1'),
  host: text,
  urls: listOf(text),
})

export const jobPlan = object<JobPlanRecord>({ schema: oneOf('longhaul.job-plan/1'), totalSteps: count })

const treeFiles = listOf(object<TreeFile>({ path: text, bytes: count, blobs: listOf(text) }))

export const weights = object<WeightsRecord>({
  schema: oneOf('longhaul.weights/1'),
  policy: policyRef,
  trees: object<WeightsRecord['trees']>({ policy: treeFiles, checkpoint: nullable(treeFiles) }),
})
