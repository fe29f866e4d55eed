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
import { describeFailure } from './print-error.ts'

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

export function describeRuns(runs: readonly ListedRun[]): string {
  const rows = runs.map(({ run, workflowId, status, startedAt, attributes }) => [
    run ?? workflowId,
    status.toLowerCase(),
    startedAt.toISOString().slice(0, 16).replace('T', ' '),
    String(attributes['Stage'] ?? '–'),
    attributes['ResolvedRate'] === undefined ? '–' : Number(attributes['ResolvedRate']).toFixed(3),
    workflowId,
  ])
  const table = [['run', 'status', 'started (UTC)', 'stage', 'pass@1', 'workflow'], ...rows]
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? []
  const line = (row: string[]): string => row.map((text, column) => text.padEnd(widths[column] ?? 0)).join('  ')
  return table.map((row) => line(row).trimEnd()).join('\n')
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
