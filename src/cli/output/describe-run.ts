import { showMean } from '../../domain/statistics/statistics.ts'
import type {
  FoundRun,
  ListedRun,
  RolloutReport,
  RunLook,
  RunOutcome,
  RunProgress,
  SteerAnswer,
} from '../../client/index.ts'
import type { EvaluateResult, StageScore, TrainAgentResult } from '../../contracts/workflows.types.ts'
import { describeScore } from '../commands/train.ts'
import { uiLink } from '../local-stack.ts'
import { describeFailure } from './console.ts'

export interface Ended {
  outcome: RunOutcome<unknown>
}

/** @param look of a run that has ended its outcome, or null if that cannot be read */
export function describeRun(found: FoundRun, look: RunLook | Ended | null): string {
  const lines = look === null ? [] : 'outcome' in look ? describeEnd(found, look.outcome) : describeLook(look)
  return [...head(found), ...lines, ...link(found)].join('\n')
}

function describeEnd({ type, closedAt }: FoundRun, outcome: RunOutcome<unknown>): string[] {
  const ended = closedAt === null ? [] : [`ended   ${closedAt.toISOString()}`]
  if (outcome.status !== 'completed') return [...ended, `why     ${describeFailure(outcome)}`]
  const { result } = outcome
  return [
    ...ended,
    ...scoresOf(type, result).map((score) => `score   ${describeScore(score)}`),
    `next    ${whereToRead(type, result)}`,
  ]
}

function scoresOf(type: string, result: unknown): StageScore[] {
  if (type === 'evaluate') return [result as EvaluateResult]
  // Gates and gradings have no stages.
  return (result as Partial<TrainAgentResult>).stages ?? []
}

/** Which command shows what a completed run found. A gate has no report of scores. */
export function whereToRead(type: string, result: unknown): string {
  const { run } = result as { run: string }
  return type === 'gateSuite'
    ? `repeat longhaul tasks gate to print its report from the records; they are below runs/${run}/gates of the artifact store`
    : `longhaul report ${run} shows its figures`
}

export function describeAnswer(found: FoundRun, answer: SteerAnswer, dryRun: boolean): string {
  const { note, progress } = answer
  return [
    ...head(found),
    `result  ${verdictOf(answer, dryRun)}${note === null ? '' : `; ${note}`}`,
    ...(progress === null ? [] : describeProgress(progress)),
    ...link(found),
  ].join('\n')
}

function verdictOf({ changed, pending }: SteerAnswer, dryRun: boolean): string {
  if (changed === null) return pending ? 'recorded' : 'cannot be known in advance'
  if (dryRun) return changed ? 'would change' : 'nothing would change'
  return changed ? 'changed' : 'nothing changed'
}

/**
 * A table that fits the terminal: columns that other columns or commands tell too go first. Names of runs stay whole, since they are
 * arguments of other commands.
 * @param columns of the terminal; null: any width
 */
export function describeRuns(runs: readonly ListedRun[], columns: number | null): string {
  const isNamedAfterRun = runs.every(({ run, kind, workflowId }) => run === null || workflowId === `${kind}/${run}`)
  const all = RUN_COLUMNS.filter(({ name }) => name !== 'workflow' || !isNamedAfterRun)
  const shown = fitting(all, runs, columns ?? Number.POSITIVE_INFINITY)
  const widths = widthsOf(shown, runs)
  const rows = [shown.map(({ name }) => name), ...runs.map((run) => shown.map(({ cell }) => cell(run)))]
  return rows
    .map((row) =>
      row
        .map((text, at) => text.padEnd(widths[at] ?? 0))
        .join(GAP)
        .trimEnd(),
    )
    .join('\n')
}

interface RunColumn {
  name: string
  /** A narrow terminal loses the column of the highest rank first; that of rank 0 stays. */
  rank: number
  cell(run: ListedRun): string
}

const GAP = '  '
const NONE = '–'

const RUN_COLUMNS: readonly RunColumn[] = [
  { name: 'run', rank: 0, cell: ({ run, workflowId }) => run ?? workflowId },
  { name: 'kind', rank: 3, cell: ({ kind }) => kind },
  { name: 'state', rank: 1, cell: ({ status }) => status.toLowerCase().replaceAll('_', '-') },
  { name: 'started (UTC)', rank: 4, cell: ({ startedAt }) => minuteOf(startedAt) },
  {
    name: 'ended',
    rank: 5,
    cell: ({ startedAt, closedAt }) => (closedAt === null ? NONE : endOf(startedAt, closedAt)),
  },
  { name: 'pass@1 ± SEM', rank: 2, cell: scoreOfRun },
  { name: 'stage', rank: 6, cell: ({ attributes }) => String(attributes['Stage'] ?? NONE) },
  { name: 'workflow', rank: 7, cell: ({ workflowId }) => workflowId },
]

function fitting(columns: readonly RunColumn[], runs: readonly ListedRun[], width: number): readonly RunColumn[] {
  const least = Math.max(...columns.map(({ rank }) => rank))
  const needed = widthsOf(columns, runs).reduce((sum, one) => sum + one, GAP.length * (columns.length - 1))
  if (least === 0 || needed <= width) return columns
  return fitting(
    columns.filter(({ rank }) => rank < least),
    runs,
    width,
  )
}

function widthsOf(columns: readonly RunColumn[], runs: readonly ListedRun[]): number[] {
  return columns.map(({ name, cell }) => Math.max(...[name, ...runs.map(cell)].map(({ length }) => length)))
}

function minuteOf(at: Date): string {
  return at.toISOString().slice(0, 16).replace('T', ' ')
}

/** The time alone where the run ended on the day of its start. */
function endOf(startedAt: Date, closedAt: Date): string {
  const [day, time = ''] = minuteOf(closedAt).split(' ')
  return minuteOf(startedAt).startsWith(`${day} `) ? time : minuteOf(closedAt).slice(5)
}

/** A run under way has at most the value that it has told the server's index, without an error bar. */
function scoreOfRun({ score, attributes }: ListedRun): string {
  if (score !== null) {
    const value = showMean({ ...score, mean: score.passAt1 })
    return score.name === null ? value : `${value} ${score.name}`
  }
  return attributes['ResolvedRate'] === undefined ? NONE : Number(attributes['ResolvedRate']).toFixed(3)
}

function head({ workflowId, status, startedAt }: FoundRun): string[] {
  return [`${workflowId}  ${status.toLowerCase()}, started ${startedAt.toISOString()}`]
}

function link({ workflowId }: FoundRun): string[] {
  const ui = uiLink(workflowId)
  return ui === null ? [] : [`UI      ${ui}`]
}

function describeLook({ progress, rollout, attributes, open, episodes }: RunLook): string[] {
  const counted = episodes === null ? [] : [`played  ${episodes.ended} episodes ended, ${episodes.open} open`]
  if (progress !== null) return [...describeProgress(progress), ...describeRollout(rollout), ...counted]
  return [
    'source  the Temporal server: no control worker answered within 3 s (longhaul run blockers names what is missing)',
    ...open.map(({ workflowId, type }) => `open    ${workflowId} (${type})`),
    ...Object.entries(attributes).map(([name, value]) => `        ${name} = ${value}`),
    ...counted,
  ]
}

function describeProgress(progress: RunProgress): string[] {
  const { phase, pause, waitingFor, stopAfterIteration, limits, scores } = progress
  return [
    `now     ${phase}${pause === null ? '' : ` (paused, ${pause})`}`,
    ...(waitingFor ? [`since   ${waitingFor.since}`] : []),
    ...(stopAfterIteration ? [`stops   after iteration ${stopAfterIteration}`] : []),
    ...(limits.concurrency === null ? [] : [`limits  ${limits.concurrency} tasks at once`]),
    ...scores.map((score) => `score   ${describeScore(score)}`),
  ]
}

function describeRollout(rollout: RolloutReport | null): string[] {
  if (rollout === null) return []
  const { stage, iteration, groups, tasks, resolved, episodes, score, eta, slowest, errors } = rollout
  const where = iteration === 0 ? stage : `${stage}, iteration ${iteration}`
  const bounds =
    score === null ? '' : `, pass@1 ${score.mean.toFixed(3)} (${score.low.toFixed(3)} to ${score.high.toFixed(3)})`
  const oldest = slowest[0]
  const last = errors[0]
  return [
    `tasks   ${groups} of ${tasks} done in ${where}; ${resolved} of ${episodes} episodes resolved${bounds}`,
    ...(eta === null ? [] : [`ready   about ${eta.slice(0, 16).replace('T', ' ')} UTC`]),
    ...(oldest === undefined ? [] : [`slowest ${oldest.task}, open since ${oldest.since}`]),
    ...(last === undefined ? [] : [`error   ${last.failure} at ${last.task}, ${last.at}`]),
  ]
}
