import type { EpisodeRecord, VerdictKind, VerdictRecord } from '../../contracts/episodes.types.ts'
import type {
  AuditDifference,
  AuditedScore,
  EvaluatedTask,
  EvaluationCost,
  EvaluationRecord,
  StoredInterval,
} from '../../contracts/evaluations.types.ts'
import type { PriceRecipe, UnauditedRewards } from '../../contracts/recipe.types.ts'
import type { StageScore } from '../../contracts/workflows.types.ts'
import { attemptCosts } from './run-costs.ts'
import { BOOTSTRAP_DRAWS, type ClusteredOutcomes } from './bootstrap.ts'
import { exclusionOf, isValidEpisode } from '../ledger/episode-fates.ts'
import { paymentOf, unpaidOf } from '../rewards/payment.ts'
import { scoreInterval } from './score-interval.ts'
import { type TaskMean, meanOverTasks, passAt1, passAtK, passHatK } from './statistics.ts'
import type { GradingScore } from '../../contracts/grading.types.ts'

/** Fixed, so that a recomputed report shows the same interval. */
export const INTERVAL_SEED = 1

/** The facts about one episode. */
export interface AttemptFacts {
  record: EpisodeRecord
  /** Null if the attempt was never graded. */
  verdict: VerdictRecord | null
  /** First prompt to last observation; null if the attempt ended before. */
  wallMs: number | null
  /** Unix ms of the first prompt. */
  startedMs: number | null
}

export interface SummaryInput {
  /** Every task of the plan. A task without an outcome is counted and never silently dropped. */
  planned: readonly Pick<EvaluatedTask, 'taskId' | 'repo' | 'rowHash' | 'createdAt'>[]
  /** k: attempts requested for each task. */
  attempts: number
  /** All episodes, including lost and replaced ones, in index order within a task. */
  facts: readonly AttemptFacts[]
  /** Null if the summary contains no costs. */
  prices: PriceRecipe | null
  /** Null if the recipe is older than audits, so the summary contains none. */
  unaudited: UnauditedRewards | null
}

type Summary = Omit<EvaluationRecord, 'schema' | 'run' | 'name' | 'stage' | 'suite' | 'score' | 'conditions'> & {
  score: Omit<StageScore, 'name' | 'policy'>
}

/** Computes all figures of an evaluation from its attempts: over those with a verdict, and as official harnesses count. */
export function summarizeAttempts({ planned, attempts, facts, prices, unaudited }: SummaryInput): Summary {
  const costs = prices === null ? null : costOf(facts, prices)
  const tasks = evaluatedTasks(planned, attempts, facts, { costs, unaudited })
  const scored = tasks.filter(({ outcomes }) => outcomes.length > 0).map(toClustered)
  const { mean, sem, semOver, taskSem } = passAt1(scored)
  const sampling = { tasks: scored, seed: INTERVAL_SEED }
  const found = scoreInterval(sampling)
  const lost = facts.map(({ record }) => exclusionOf(record)).filter((reason) => reason !== null)
  const couldNotGrade = lost.filter((reason) => reason === 'could-not-grade').length
  const audited = unaudited === null ? null : auditedScore(tasks, facts, unaudited, found?.interval ?? null)
  return {
    score: {
      passAt1: mean,
      sem,
      tasks: scored.length,
      attempts: Math.max(0, ...scored.map(({ outcomes }) => outcomes.length)),
      ...(audited === null ? {} : { audited: { passAt1: audited.passAt1, sem: audited.sem } }),
    },
    semOver,
    taskSem,
    interval: found?.interval ?? null,
    bootstrap: found === null ? null : { ...found.bootstrap, draws: BOOTSTRAP_DRAWS, seed: INTERVAL_SEED },
    official: officialScore(tasks, attempts, found?.interval ?? null),
    ...(audited === null ? {} : { audited }),
    attempts,
    passAtK: Array.from({ length: attempts }, (_, index) => {
      const k = index + 1
      return { k, any: passAtK({ tasks: scored, k }), all: passHatK({ tasks: scored, k }) }
    }),
    tasks,
    dispositions: countBy(facts, ({ record }) => record.disposition),
    verdicts: countBy(facts, ({ record }) => record.verdict ?? 'none'),
    reasons: countBy(
      facts.filter(({ record }) => record.verdictReason !== null),
      ({ record }) => record.verdictReason ?? '',
    ),
    infra: lost.length - couldNotGrade,
    // Records older than the flag lack it.
    suspectedHacks: facts.filter(({ record }) => record.suspectedHack).length,
    couldNotGrade,
    ...effort(tasks, facts),
    ...(prices === null || costs === null ? {} : { cost: sumCosts(tasks, facts, prices, costs) }),
    gradedByGate: facts.filter(({ verdict }) => verdict?.from === 'gate').length,
  }
}

function evaluatedTasks(
  planned: SummaryInput['planned'],
  attempts: number,
  facts: readonly AttemptFacts[],
  { costs, unaudited }: { costs: CostOf | null; unaudited: UnauditedRewards | null },
): EvaluatedTask[] {
  const isCounted = facts.some(({ record }) => (record.usage ?? null) !== null)
  const byTask = Map.groupBy(facts, ({ record }) => record.taskId)
  return planned.map((task) => {
    const ofTask = byTask.get(task.taskId) ?? []
    const valid = ofTask.filter(({ record }) => isValidEpisode(record))
    const lost = Math.max(0, attempts - valid.length)
    const replaced = Math.max(0, ofTask.filter(isLost).length - lost)
    return {
      ...task,
      outcomes: valid.map(({ record }): 0 | 1 => (record.verdict === 'resolved' ? 1 : 0)),
      ...(unaudited === null
        ? {}
        : { audited: valid.map(({ record }): 0 | 1 => (paymentOf(record, unaudited) === 'paid' ? 1 : 0)) }),
      lost,
      ...(replaced === 0 ? {} : { replaced }),
      turns: valid.map(({ record }) => record.turns),
      sampledTokens: valid.map(({ record }) => record.sampledTokens),
      wallSeconds: valid.map(({ wallMs }) => (wallMs === null ? null : wallMs / 1000)),
      ...(isCounted
        ? {
            promptTokens: valid.map(({ record }) => record.usage?.promptTokens ?? null),
            cachedTokens: valid.map(({ record }) => record.usage?.cachedTokens ?? null),
          }
        : {}),
      ...(costs === null ? {} : { cost: valid.map((attempt) => costs.get(attempt) ?? null) }),
    }
  })
}

/** Whether a started attempt has no outcome. An attempt that an operator cancelled was withdrawn and does not count. */
function isLost({ record }: AttemptFacts): boolean {
  return !isValidEpisode(record) && record.disposition !== 'cancelled'
}

function toClustered({ taskId, repo, outcomes }: EvaluatedTask): ClusteredOutcomes {
  return { taskId, cluster: repo, outcomes }
}

/**
 * Official harnesses have no concept of a lost attempt: an attempt without a verdict is unresolved, even if another attempt replaced
 * it, and every planned task counts.
 */
function officialScore(
  tasks: readonly EvaluatedTask[],
  attempts: number,
  graded: StoredInterval | null,
): EvaluationRecord['official'] {
  const filled = tasks.map((task): ClusteredOutcomes => {
    const { taskId, cluster, outcomes } = toClustered(task)
    return { taskId, cluster, outcomes: [...outcomes, ...Array<0>(task.lost + (task.replaced ?? 0)).fill(0)] }
  })
  const { mean, sem } = passAt1(filled)
  // If nothing was lost, it is the same sample and need not be resampled.
  const isWhole = tasks.every(({ lost, replaced = 0 }) => lost + replaced === 0)
  const found = isWhole ? null : scoreInterval({ tasks: filled, seed: INTERVAL_SEED })
  return { passAt1: mean, sem, interval: found?.interval ?? graded, tasks: filled.length, attempts }
}

/** The paid part of the same attempts, and why other resolved ones were not paid. */
function auditedScore(
  tasks: readonly EvaluatedTask[],
  facts: readonly AttemptFacts[],
  unaudited: UnauditedRewards,
  ofScore: StoredInterval | null,
): AuditedScore {
  const scored = tasks.flatMap((task): ClusteredOutcomes[] => {
    const { audited = [] } = task
    return audited.length === 0 ? [] : [{ ...toClustered(task), outcomes: audited }]
  })
  const { mean, sem } = passAt1(scored)
  const resolved = facts.filter(({ record }) => isValidEpisode(record) && record.verdict === 'resolved')
  const differences = resolved.flatMap(({ record }) => differenceOf(record, unaudited))
  // If nothing is unpaid, it is the same sample.
  const interval =
    differences.length === 0 ? ofScore : (scoreInterval({ tasks: scored, seed: INTERVAL_SEED })?.interval ?? null)
  const paid = resolved.length - differences.length
  const agreed = resolved.filter(({ record }) => unpaidOf(record, 'refuse') === null).length
  return {
    passAt1: mean,
    sem,
    interval,
    tasks: scored.length,
    attempts: Math.max(0, ...scored.map(({ outcomes }) => outcomes.length)),
    resolved: resolved.length,
    paid,
    unaudited: paid - agreed,
    differences,
  }
}

function differenceOf(record: EpisodeRecord, unaudited: UnauditedRewards): AuditDifference[] {
  const because = unpaidOf(record, unaudited)
  if (because === null) return []
  const { taskId, episode, audit } = record
  return [{ taskId, episode, because, reasons: audit?.reasons ?? [], detail: audit?.detail ?? null }]
}

type CostOf = ReadonlyMap<AttemptFacts, number | null>

function costOf(facts: readonly AttemptFacts[], prices: PriceRecipe): CostOf {
  const paid = facts.map(({ record, startedMs, wallMs }) => ({
    usage: record.usage ?? null,
    startedMs,
    endedMs: startedMs === null || wallMs === null ? null : startedMs + wallMs,
  }))
  const costs = attemptCosts(paid, prices)
  return new Map(facts.map((attempt, index) => [attempt, costs[index] ?? null]))
}

function sumCosts(
  tasks: readonly EvaluatedTask[],
  facts: readonly AttemptFacts[],
  prices: PriceRecipe,
  costs: CostOf,
): EvaluationCost {
  const total = (wanted: boolean): number =>
    sum(facts.filter(({ record }) => isValidEpisode(record) === wanted).map((attempt) => costs.get(attempt) ?? 0))
  return {
    prices,
    attempt: meanOfKnown(tasks.map(({ cost = [] }) => cost)),
    graded: total(true),
    lost: total(false),
    unknown: [...costs.values()].filter((cost) => cost === null).length,
  }
}

type Effort = Pick<Summary, 'turns' | 'sampledTokens' | 'wallSeconds' | 'promptTokens' | 'cachedTokens' | 'totals'>

function effort(tasks: readonly EvaluatedTask[], facts: readonly AttemptFacts[]): Effort {
  const times = tasks.map(({ wallSeconds }) => wallSeconds.filter((time) => time !== null))
  const valid = facts.filter(({ record }) => isValidEpisode(record))
  const promptTokens = meanOfKnown(tasks.map(({ promptTokens = [] }) => promptTokens))
  const cachedTokens = meanOfKnown(tasks.map(({ cachedTokens = [] }) => cachedTokens))
  return {
    ...(promptTokens === null ? {} : { promptTokens }),
    ...(cachedTokens === null ? {} : { cachedTokens }),
    turns: meanOverTasks(tasks.map(({ turns }) => turns)),
    sampledTokens: meanOfKnown(tasks.map(({ sampledTokens }) => sampledTokens)),
    wallSeconds: meanOfKnown(tasks.map(({ wallSeconds }) => wallSeconds)),
    totals: {
      turns: sum(valid.map(({ record }) => record.turns)),
      formatErrorTurns: sum(valid.map(({ record }) => record.formatErrorTurns)),
      sampledTokens: sum(valid.map(({ record }) => record.sampledTokens ?? 0)),
      wallSeconds: sum(times.flat()),
      gradeSeconds: sum(facts.map(({ verdict }) => (verdict?.gradeMs ?? 0) / 1000)),
      ...(promptTokens === null ? {} : { promptTokens: sumKnown(tasks.map(({ promptTokens = [] }) => promptTokens)) }),
      ...(cachedTokens === null ? {} : { cachedTokens: sumKnown(tasks.map(({ cachedTokens = [] }) => cachedTokens)) }),
    },
  }
}

/** Mean over the attempts with a value; null if none has one. */
function meanOfKnown(values: readonly (readonly (number | null)[])[]): TaskMean | null {
  const known = values.map((ofTask) => ofTask.filter((value) => value !== null))
  return known.some((ofTask) => ofTask.length > 0) ? meanOverTasks(known) : null
}

function sumKnown(values: readonly (readonly (number | null)[])[]): number {
  return sum(values.flat().map((value) => value ?? 0))
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** Sorted by key, so that the same facts give the same bytes. */
function countBy<T, K extends string>(
  items: readonly T[],
  key: (item: T) => K,
): Partial<Record<K, number>> & Record<string, number> {
  const counts = [...Map.groupBy(items, key)].map(([name, members]) => [name, members.length] as const)
  return Object.fromEntries(counts.sort(([a], [b]) => (a < b ? -1 : 1))) as Partial<Record<K, number>> &
    Record<string, number>
}

export interface JudgedPatch {
  taskId: string
  /** The cluster, because tasks of one repository are similar. */
  repo: string
  kind: VerdictKind
}

/** A task without a prediction. */
export interface MissingTask {
  taskId: string
  repo: string
}

export interface GradingScores {
  /** Null if nothing was graded. */
  graded: GradingScore | null
  official: GradingScore | null
}

/** Computes both scores: over patches with a verdict, and over everything that an official harness would count. */
export function scoreGrading(patches: readonly JudgedPatch[], missing: readonly MissingTask[]): GradingScores {
  const graded = patches.filter(({ kind }) => kind !== 'could-not-grade')
  const counted = [...patches, ...missing.map((task) => ({ ...task, kind: 'unresolved' as const }))]
  return { graded: scoreOf(graded), official: scoreOf(counted) }
}

function scoreOf(patches: readonly JudgedPatch[]): GradingScore | null {
  const tasks = [...Map.groupBy(patches, ({ taskId }) => taskId)].map(([taskId, ofTask]) => ({
    taskId,
    cluster: ofTask[0]?.repo ?? '',
    outcomes: ofTask.map(({ kind }): 0 | 1 => (kind === 'resolved' ? 1 : 0)),
  }))
  if (tasks.length === 0) return null
  const { mean, sem, attempts } = passAt1(tasks)
  return {
    mean,
    sem,
    interval: scoreInterval({ tasks, seed: INTERVAL_SEED })?.interval ?? null,
    tasks: tasks.length,
    attempts,
  }
}
