import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import { type ContaminationSplit, splitByCutoff } from '../domain/statistics/contamination.ts'
import type { LedgerTotals } from '../domain/ledger/ledger.ts'
import { type FlakyTask, flakyTasks } from '../domain/statistics/statistics.ts'
import { type Gain, judgeGain, requireMean } from './means.ts'
import type { CurvePoint, ReportData, ReportedNight } from './report-data.ts'
import { scoreOf } from './tables.ts'

/** `report.json`: the figures of a run for programs. Keys are only ever added. */
export interface JsonReport {
  schema: 'longhaul.report/1'
  run: string
  kind: 'train' | 'eval'
  recipe: ReportData['recipe']
  stages: StageReport[]
  flagged: ReportData['flagged']
  costs: ReportData['costs']
  lineage: ReportData['lineage']
  ledger: LedgerTotals & { mismatches: number }
  /** Seconds. */
  durations: Record<string, number>
  paired: (ReportData['paired'][number] & { verdict: Gain })[]
  curve: CurvePoint[]
  /** ISO date; null if the recipe names none. */
  cutoff: string | null
  suites: ReportData['suites']
  refused: ReportData['refused']
  /** `nights` is absent if nothing was compared, `promotion` if nothing was decided. */
  nights?: ReportedNight[]
  promotion?: string
  versions: ReportData['versions']
}

/** One evaluation: its score and all of its record except single attempts. */
interface StageReport
  extends Omit<
    EvaluationRecord,
    'schema' | 'run' | 'stage' | 'score' | 'tasks' | 'attempts' | 'conditions' | 'origin'
  > {
  name: string
  policy: string
  passAt1: number
  sem: number
  /** Scored tasks, and the most attempts that one of them had. */
  tasks: number
  attempts: number
  /** Of each attempt; null if no episode stored its spec. */
  limits: { maxTurns: number; contextTokens: number } | null
  flaky: FlakyTask[]
  /** Null without a cut-off date. */
  contamination: ContaminationSplit | null
}

/** @throws LonghaulError `Report.Incomplete` */
export function toJsonReport(data: ReportData): JsonReport {
  const {
    run,
    kind,
    recipe,
    evaluations,
    costs,
    lineage,
    ledger,
    durations,
    paired,
    curve,
    cutoff,
    flagged,
    suites,
    refused,
    versions,
    nights,
    promotion,
  } = data
  return {
    schema: 'longhaul.report/1',
    run,
    kind,
    recipe,
    stages: evaluations.map((evaluation) => toStage(evaluation, cutoff)),
    costs,
    lineage,
    ledger: { ...ledger.totals, mismatches: ledger.mismatches },
    durations,
    paired: paired.map((pair) => ({ ...pair, verdict: judgeGain(pair) })),
    curve,
    cutoff,
    flagged,
    suites,
    refused,
    versions,
    ...(nights === undefined ? {} : { nights }),
    ...(promotion === undefined ? {} : { promotion }),
  }
}

function toStage(evaluation: EvaluationRecord, cutoff: string | null): StageReport {
  const { mean, sem, tasks: scored, attempts } = scoreOf(evaluation)
  requireEveryMean(evaluation)
  const { schema: _schema, run: _run, stage: _stage, conditions, ...shown } = evaluation
  // `suites` has the origin, once for all stages.
  const { origin: _origin, score, tasks, name, ...rest } = shown
  return {
    name,
    policy: score.policy,
    passAt1: mean,
    ...rest,
    sem,
    tasks: scored,
    attempts,
    limits:
      conditions === null
        ? null
        : { maxTurns: conditions.limits.maxTurns, contextTokens: conditions.limits.contextTokens },
    flaky: flakyTasks(tasks),
    contamination: cutoff === null ? null : splitByCutoff({ tasks, cutoff }),
  }
}

/** Programs read means without the surrounding text, so each mean carries its standard error. */
function requireEveryMean(evaluation: EvaluationRecord): void {
  const { name, official, audited, turns, sampledTokens, promptTokens, cachedTokens, wallSeconds, cost, passAtK } =
    evaluation
  const { passAt1: mean, sem, tasks, attempts } = official
  requireMean(`${name}, official`, { mean, sem, tasks, attempts })
  if (audited !== undefined) requireMean(`${name}, audited`, { ...audited, mean: audited.passAt1 })
  const spent = [turns, sampledTokens, promptTokens, cachedTokens, wallSeconds, cost?.attempt]
  for (const value of [...spent, ...passAtK.flatMap(({ any, all }) => [any, all])]) {
    if (value !== null && value !== undefined) requireMean(name, { ...value, attempts: 1 })
  }
}

export function renderJsonReport(data: ReportData): string {
  return `${JSON.stringify(toJsonReport(data), null, 2)}\n`
}
