import type { LedgerTotals } from '../domain/ledger.ts'
import { type Gain, judgeGain } from './gains.ts'
import type { CurvePoint, ReportData } from './report-data.ts'
import { scoreOf } from './tables.ts'

/** `report.json`: the figures of a run for programs. Keys are only ever added. */
export interface JsonReport {
  schema: 'longhaul.report/1'
  run: string
  kind: 'train' | 'eval'
  recipe: ReportData['recipe']
  stages: {
    name: string
    policy: string
    passAt1: number
    sem: number
    tasks: number
    attempts: number
    /** Clustered by task. */
    taskSem: number
    interval: { low: number; high: number } | null
    infra: number
    suspectedHacks: number
  }[]
  flagged: ReportData['flagged']
  ledger: LedgerTotals & { mismatches: number }
  /** Seconds. */
  durations: Record<string, number>
  paired: (ReportData['paired'][number] & { verdict: Gain })[]
  curve: CurvePoint[]
  refused: ReportData['refused']
  versions: ReportData['versions']
}

/** @throws LonghaulError `Report.Incomplete` */
export function toJsonReport(data: ReportData): JsonReport {
  const { run, kind, recipe, evaluations, ledger, durations, paired, curve, flagged, refused, versions } = data
  return {
    schema: 'longhaul.report/1',
    run,
    kind,
    recipe,
    stages: evaluations.map((evaluation) => {
      const { mean, sem, tasks, attempts } = scoreOf(evaluation)
      const { name, score, taskSem, interval, infra, suspectedHacks } = evaluation
      const figures = { passAt1: mean, sem, tasks, attempts, taskSem, interval, infra, suspectedHacks }
      return { name, policy: score.policy, ...figures }
    }),
    ledger: { ...ledger.totals, mismatches: ledger.mismatches },
    durations,
    paired: paired.map((pair) => ({ ...pair, verdict: judgeGain(pair) })),
    curve,
    flagged,
    refused,
    versions,
  }
}

export function renderJsonReport(data: ReportData): string {
  return `${JSON.stringify(toJsonReport(data), null, 2)}\n`
}
