/** Reads a run's page and its report from records. */
import {
  gatherReportData,
  lastEvaluations,
  orderEvaluations,
  readEvaluations,
} from '../activities/evaluation/report-data.ts'
import { readRunCosts } from '../activities/evaluation/read-costs.ts'
import { newestDurations } from '../activities/evaluation/write-report.ts'
import { readUnlessCorrupt } from '../activities/runtime/stored-records.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { runKeys } from '../contracts/keys.ts'
import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import type { TrainingRecord } from '../contracts/training.types.ts'
import { compareText } from '../domain/hash-order.ts'
import { createSlots } from '../platform/limiter.ts'
import { lineageTable, lostCostTable, policyTable, resolvedCostTable, runCostTable } from '../report/cost-tables.ts'
import {
  auditDifferenceTable,
  auditedTable,
  costTable,
  dispositionTable,
  effortTable,
  flakyTable,
  officialTable,
  passAtKTable,
  verdictTable,
} from '../report/evaluation-tables.ts'
import { suiteTable } from '../report/suite-table.ts'
import {
  durationTable,
  ledgerTable,
  pairedTable,
  refusedTable,
  scoreTable,
  signTable,
  suspectTable,
} from '../report/tables.ts'
import type {
  EvaluationLine,
  ReportPage,
  RunLine,
  RunPage,
  RunsPage,
  TrainingLine,
  BlockersPage,
} from './pages.types.ts'
import { seriesOfRun } from './read-nights.ts'
import { NO_SERVER, type RunSource, type RunState } from './run-source.ts'
import type { RunClaim, StoredRecipe } from '../contracts/run-records.types.ts'

const TABLES = [
  scoreTable,
  pairedTable,
  auditedTable,
  officialTable,
  passAtKTable,
  dispositionTable,
  verdictTable,
  effortTable,
  costTable,
  runCostTable,
  resolvedCostTable,
  lostCostTable,
  signTable,
  suspectTable,
  auditDifferenceTable,
  flakyTable,
  ledgerTable,
  suiteTable,
  refusedTable,
  durationTable,
  lineageTable,
  policyTable,
]

/** Names of the runs in a store; a page may ask for no others. */
export function listRuns(store: ArtifactStore): Promise<string[]> {
  return store.folders('runs/')
}

/** Runs read at once: each takes up to four small requests, which a bucket answers in some milliseconds each. */
const RUNS_AT_ONCE = 32

/** @param known lines of runs that have ended, whose records no longer change; later calls read none of them again */
export async function readRunsPage(
  { store, source }: { store: ArtifactStore; source: RunSource | null },
  known: Map<string, RunLine> = new Map(),
): Promise<RunsPage> {
  const [names, answer] = await Promise.all([listRuns(store), source?.runs()])
  const states = new Map<string, RunState>()
  // The same run may have been started again: its newest execution comes first.
  for (const state of answer?.ok === true ? answer.value : []) if (!states.has(state.run)) states.set(state.run, state)
  const slots = createSlots(RUNS_AT_ONCE)
  const lines = names.map(async (run): Promise<RunLine> => {
    const line = known.get(run) ?? (await slots.use(() => readRunLine(store, run)))
    const state = states.get(run)
    if (line.state !== null) known.set(run, line)
    if (state === undefined) return line
    return {
      ...line,
      state: state.state,
      startedAt: state.startedAt.toISOString(),
      endedAt: state.endedAt?.toISOString() ?? null,
    }
  })
  const started = ({ startedAt }: RunLine): string => startedAt ?? ''
  const runs = (await Promise.all(lines)).sort(
    (a, b) => compareText(started(b), started(a)) || compareText(a.run, b.run),
  )
  return { kind: 'runs', runs }
}

export async function readRunLine(store: ArtifactStore, run: string): Promise<RunLine> {
  const [claim, folders] = await Promise.all([
    readUnlessCorrupt<RunClaim>(store, runKeys.claim(run)),
    store.folders(runKeys.folder(run)),
  ])
  return {
    run,
    kind: claim?.kind ?? 'unknown',
    recipe: claim?.recipe ?? '',
    // Durations are written with the report, when all else is.
    state: folders.includes('durations') ? 'completed' : null,
    startedAt: claim?.startedAt ?? null,
    endedAt: null,
    score: folders.includes('evaluations') ? await readHeadline(store, run, claim?.evaluation) : null,
  }
}

/** Chosen by its key where that is possible, so that one record is read of a run with hundreds of evaluations. */
async function readHeadline(store: ArtifactStore, run: string, own: string | undefined): Promise<RunLine['score']> {
  const names = (await store.list(`runs/${run}/evaluations/`))
    .map((key) => /\/evaluations\/(.+)\.json$/.exec(key)?.[1])
    .filter((name) => name !== undefined)
  const chosen = own !== undefined && names.includes(own) ? [own] : lastEvaluations(names)
  const records = await Promise.all(
    chosen.map(async (name) => {
      const record = await readUnlessCorrupt<EvaluationRecord>(store, runKeys.evaluation(run, name))
      // Records of earlier versions hold no score of their own.
      const { score } = (record ?? {}) as Partial<EvaluationRecord>
      return score === undefined ? [] : [{ name, score }]
    }),
  )
  const last = orderEvaluations(records.flat()).at(-1)
  return last === undefined
    ? null
    : { name: last.name, passAt1: last.score.passAt1, sem: last.score.sem, tasks: last.score.tasks }
}

export async function readRunPage(store: ArtifactStore, run: string): Promise<RunPage> {
  const [claim, stored, evaluations, training, series] = await Promise.all([
    readUnlessCorrupt<RunClaim>(store, runKeys.claim(run)),
    readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(run)),
    evaluationLines(store, run),
    trainingLines(store, run),
    seriesOfRun(store, run),
  ])
  return {
    kind: 'run',
    run,
    runKind: claim?.kind ?? 'unknown',
    workflowId: claim?.workflowId ?? null,
    recipe: stored === null ? null : describeRecipe(stored),
    evaluations,
    training,
    series,
  }
}

function describeRecipe({ recipe, hash }: StoredRecipe): RunPage['recipe'] {
  // Test runs store only the part of a recipe that they need.
  const { name, seed, model } = recipe as Partial<StoredRecipe['recipe']>
  return { name: name ?? '', hash, seed: seed ?? 0, base: model?.base ?? '' }
}

async function evaluationLines(store: ArtifactStore, run: string): Promise<EvaluationLine[]> {
  const evaluations = await readEvaluations(store, run)
  return evaluations.map(({ name, stage, suite, score, interval, infra, suspectedHacks }) => {
    const { policy, passAt1, sem, tasks, attempts } = score
    return { name, stage, suite, policy, passAt1, sem, interval, tasks, attempts, infra, suspectedHacks }
  })
}

async function trainingLines(store: ArtifactStore, run: string): Promise<TrainingLine[]> {
  const keys = (await store.list(`runs/${run}/training/`)).filter((key) => key.endsWith('.json'))
  const records = await Promise.all(keys.map((key) => readUnlessCorrupt<TrainingRecord>(store, key)))
  return records
    .filter((record) => record !== null)
    .map(({ stage, iteration, slice, steps, alarms }) => ({
      stage,
      iteration,
      slice,
      steps: steps.map(numbersOf),
      alarms,
    }))
}

function numbersOf(step: Record<string, unknown>): Record<string, number> {
  const numbers = Object.entries(step).filter((entry): entry is [string, number] => Number.isFinite(entry[1]))
  return Object.fromEntries(numbers)
}

/** An unfinished run, or one of another kind, may have no report: the page says why and shows the costs. */
export async function readReportPage(store: ArtifactStore, run: string): Promise<ReportPage> {
  try {
    const durations = (await newestDurations(store, run))?.durations ?? {}
    const data = await gatherReportData(store, { run, durations })
    const tables = TABLES.map((make) => make(data)).filter(({ rows }) => rows.length > 0)
    return { kind: 'report', run, tables, curve: data.curve, problem: null }
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    return { kind: 'report', run, tables: await costTables(store, run), curve: [], problem }
  }
}

/** Costs are known before a run has a report, and need no evaluation. */
async function costTables(store: ArtifactStore, run: string): Promise<ReportPage['tables']> {
  const stored = await readUnlessCorrupt<StoredRecipe>(store, runKeys.recipe(run))
  if (stored === null) return []
  const costs = await readRunCosts(store, { run, recipe: stored.recipe })
  return [runCostTable, resolvedCostTable, lostCostTable]
    .map((make) => make({ costs }))
    .filter(({ rows }) => rows.length > 0)
}

/** What a run waits for now, which no record contains. */
export async function readBlockersPage(
  { store, source }: { store: ArtifactStore; source: RunSource | null },
  run: string,
): Promise<BlockersPage> {
  const answer = source === null ? ({ ok: false, why: NO_SERVER } as const) : await source.blockers(run)
  if (answer.ok) return { kind: 'blockers', run, why: null, open: answer.value, isPlayed: answer.value !== null }
  const isPlayed = (await newestDurations(store, run)) === null
  return { kind: 'blockers', run, why: answer.why, open: null, isPlayed }
}
