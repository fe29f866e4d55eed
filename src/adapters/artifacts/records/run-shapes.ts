import type { Alarm, AlarmCounts, AlarmSent, AlarmsSince } from '../../../contracts/alarms.types.ts'
import type { CodeRecord, DurationsRecord, JobAttemptTime, JobTimeRecord } from '../../../contracts/costs.types.ts'
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
  absentable,
  amount,
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
  share,
  size,
  text,
  variants,
} from './shape.ts'

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
