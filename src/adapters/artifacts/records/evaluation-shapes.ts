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
import {
  absentable,
  amount,
  count,
  flag,
  instant,
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
  type Misfit,
} from './shape.ts'
import { suiteOrigin } from './suite-shapes.ts'

export const stageScore = object<StageScore>({
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
