/** Progress of a run, as a line of a log and as a block of a terminal, both from the same facts. */
import type { OpenActivity, RolloutReport, RunEvent, WorkCount } from '../../client/index.ts'
import { oneLine } from '../../domain/hostile-text.ts'
import { elapsed, type LiveText } from './live-lines.ts'

export type ProgressEvent = Extract<RunEvent<unknown>, { kind: 'progress' }>

export interface ProgressFacts {
  /** Start of following, ms since 1970. */
  startedMs: number
  workflowId: string
  /** The run's last progress event; null before the first. */
  last: ProgressEvent | null
  /** When the run last reported something new. */
  changedMs: number
  /** Why the server does not answer; null if it does. */
  unreachable: string | null
  /** What blocks the run now. */
  blockers: readonly string[]
  rate: Rate
}

/** Countable work of one phase, for a bar. */
export interface Count {
  unit: string
  done: number
  total: number
  failed: number
  /** What `failed` means for this unit. */
  failedAs: string
}

/** After this long without anything new, the display says so. */
const SILENT_MS = 60_000
const MOST_BLOCKERS = 3
const MOST_SLOWEST = 3

export function describeProgress(facts: ProgressFacts, nowMs: number): LiveText {
  const stage = stageOf(facts)
  const line = [stage, ...lineParts(facts, nowMs)].join(' · ')
  const text = `${elapsed(nowMs - facts.startedMs)}  ${line}`
  return { stage: stage.replaceAll(/\d+/g, '#'), line: text, block: blockOf(facts, stage, nowMs) }
}

function stageOf({ last, unreachable }: ProgressFacts): string {
  if (unreachable !== null) return `the Temporal server does not answer; the run goes on (${oneLine(unreachable)})`
  if (last === null) return 'asking the run how far it is'
  const { progress, work } = last
  if (progress === null) return 'waiting for a control worker to answer'
  const { iteration = 0, stage = '' } = work?.rollout ?? {}
  const where = iteration > 0 && progress.phase.includes(stage) ? `, iteration ${iteration}` : ''
  const pause = progress.paused ? ` (paused${progress.pause === 'hard' ? ', open episodes hold' : ''})` : ''
  return `${oneLine(progress.phase)}${where}${pause}`
}

function lineParts(facts: ProgressFacts, nowMs: number): string[] {
  const { last } = facts
  if (last === null) return []
  const count = countOf(last)
  const activity = count === null ? describeOldest(last, nowMs) : null
  const parts = [
    count === null ? null : describeCount(count),
    episodesOf(last),
    count === null ? null : describeRate(facts, count, nowMs),
    scoreOf(last.work?.rollout ?? null),
    activity,
    describeSilence(facts, nowMs),
  ]
  return parts.filter((part) => part !== null)
}

/** @param stage the first line */
function blockOf(facts: ProgressFacts, stage: string, nowMs: number): string[] {
  const { last, workflowId, blockers } = facts
  const rows: [string, string | null][] = [[elapsed(nowMs - facts.startedMs).trim(), `${workflowId} · ${stage}`]]
  if (last !== null) {
    const count = countOf(last)
    const rollout = last.work?.rollout ?? null
    const rate = count === null ? null : describeRate(facts, count, nowMs)
    rows.push(
      [
        'done',
        count === null ? null : [bar(count), describeCount(count), ...(rate === null ? [] : [rate])].join(' · '),
      ],
      ['played', episodesOf(last)],
      ['score', scoreOf(rollout)],
      ['slowest', describeSlowest(rollout, nowMs)],
      ['now', describeActivities(last, nowMs)],
      ['error', describeError(rollout)],
    )
  }
  rows.push(...blockers.slice(0, MOST_BLOCKERS).map((blocker): [string, string] => ['waits on', blocker]))
  if (blockers.length > MOST_BLOCKERS) rows.push(['', `${blockers.length - MOST_BLOCKERS} more: longhaul run blockers`])
  rows.push(['', describeSilence(facts, nowMs)])
  return rows.flatMap(([name, value]) => (value === null ? [] : [`${name.padEnd(9)} ${value}`]))
}

export function countOf({ work }: ProgressEvent): Count | null {
  if (work === null) return null
  const { count, rollout } = work
  // A rollout comes first: no gate is open beside it.
  if (rollout !== null) {
    return {
      unit: 'tasks',
      done: rollout.groups,
      total: rollout.tasks,
      failed: lostOf(rollout),
      failedAs: 'episodes lost',
    }
  }
  return count === null ? null : { ...count, failedAs: FAILED_AS[count.unit] }
}

const FAILED_AS: Record<WorkCount['unit'], string> = { tasks: 'refused', patches: 'without a verdict' }

/** Endings of episodes that count in no score. */
const LOST = ['infra', 'cancelled', 'could-not-grade']

function lostOf({ endings }: RolloutReport): number {
  return LOST.reduce((sum, ending) => sum + (endings[ending] ?? 0), 0)
}

function describeCount({ unit, done, total, failed, failedAs }: Count): string {
  return `${done} of ${total} ${unit}${failed === 0 ? '' : `, ${failed} ${failedAs}`}`
}

function bar({ done, total }: Count): string {
  const width = 20
  const full = total === 0 ? width : Math.min(width, Math.floor((done / total) * width))
  return `[${'#'.repeat(full)}${'-'.repeat(width - full)}]`
}

function episodesOf({ episodes, work }: ProgressEvent): string | null {
  if (episodes === null || episodes.open + episodes.ended === 0) return null
  const lost = work?.rollout ? lostOf(work.rollout) : 0
  const failed = lost === 0 ? '' : `, ${lost} lost`
  return `episodes ${episodes.ended} done, ${episodes.open} open${failed}`
}

function scoreOf(rollout: RolloutReport | null): string | null {
  const score = rollout?.score ?? null
  if (score === null) return null
  const { mean, low, high, tasks } = score
  return `pass@1 so far ${mean.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)}, n = ${tasks})`
}

function describeSlowest(rollout: RolloutReport | null, nowMs: number): string | null {
  const slowest = (rollout?.slowest ?? []).slice(0, MOST_SLOWEST)
  if (slowest.length === 0) return null
  return slowest.map(({ task, since }) => `${oneLine(task, 60)} ${duration(nowMs - Date.parse(since))}`).join(' · ')
}

function describeError(rollout: RolloutReport | null): string | null {
  const last = rollout?.errors[0]
  return last === undefined ? null : `${oneLine(last.failure)} at ${oneLine(last.task, 60)}`
}

function describeActivities(event: ProgressEvent, nowMs: number): string | null {
  const open = event.work?.activities ?? []
  const oldest = describeOldest(event, nowMs)
  if (oldest === null || open.length === 1) return oldest
  const waiting = open.filter(({ isStarted }) => !isStarted).length
  return `${open.length} under way${waiting === 0 ? '' : `, ${waiting} of them queued`}; the oldest: ${oldest}`
}

function describeOldest({ work }: ProgressEvent, nowMs: number): string | null {
  const open = work?.activities ?? []
  const oldest = open.find(({ isStarted }) => isStarted) ?? open[0]
  if (oldest === undefined) return null
  const { activity, sinceMs, isStarted, doing } = oldest
  const what = doing === null ? activity : `${activity}: ${oneLine(doing)}`
  const facts = describeFacts(oldest)
  const since = duration(nowMs - sinceMs)
  return isStarted ? `${what}${facts === '' ? '' : ` (${facts})`} for ${since}` : `${activity} queued for ${since}`
}

/** Phase, step and loss, which training jobs report; other activities have few facts, each a word or a number. */
function describeFacts({ facts }: OpenActivity): string {
  const { phase, globalStep, loss } = (facts ?? {}) as { phase?: unknown; globalStep?: unknown; loss?: unknown }
  const parts = [
    typeof phase === 'string' ? oneLine(phase, 40) : '',
    typeof globalStep === 'number' ? `step ${globalStep}` : '',
    typeof loss === 'number' ? `loss ${loss.toPrecision(3)}` : '',
  ]
  return parts.filter((part) => part !== '').join(', ')
}

function describeRate({ rate, last }: ProgressFacts, count: Count, nowMs: number): string | null {
  const eta = last?.work?.rollout?.eta ?? null
  const perMs = rate.perMs(nowMs)
  const left = count.total - count.done
  if (perMs === null || left <= 0) return null
  const perMinute = perMs * 60_000
  const speed = perMinute >= 1 ? `${perMinute.toFixed(1)} a minute` : `${(perMinute * 60).toFixed(1)} an hour`
  if (last?.progress?.paused === true) return speed
  // A rollout's own estimate also covers the time before this command began to watch.
  const leftMs = eta === null ? left / perMs : Date.parse(eta) - nowMs
  return `${speed}, ready in about ${duration(Math.max(0, leftMs))}`
}

function describeSilence({ changedMs }: ProgressFacts, nowMs: number): string | null {
  const silentMs = nowMs - changedMs
  return silentMs < SILENT_MS ? null : `nothing new for ${duration(silentMs)}`
}

/** Recent growth of a count, from observed values. */
export interface Rate {
  saw(nowMs: number, phase: string, count: Count | null): void
  /** Null while the rate is unknown. */
  perMs(nowMs: number): number | null
}

/** Long enough to even out bursts, short enough to follow a change. */
const WINDOW_MS = 10 * 60_000
/** One step says nothing about a rate. */
const LEAST_GROWTH = 2

export function createRate(): Rate {
  let of = ''
  let samples: { atMs: number; done: number }[] = []
  return {
    saw(nowMs, phase, count) {
      const next = count === null ? '' : `${phase.replaceAll(/\d+/g, '#')} ${count.unit} ${count.total}`
      if (next !== of || (samples.at(-1)?.done ?? 0) > (count?.done ?? 0)) samples = []
      of = next
      if (count === null || samples.at(-1)?.done === count.done) return
      samples.push({ atMs: nowMs, done: count.done })
      while (samples.length > 2 && nowMs - (samples[1]?.atMs ?? 0) > WINDOW_MS) samples.shift()
    },
    perMs(nowMs) {
      const [first] = samples
      const last = samples.at(-1)
      if (first === undefined || last === undefined || last.done - first.done < LEAST_GROWTH) return null
      return (last.done - first.done) / Math.max(1, nowMs - first.atMs)
    },
  }
}

function duration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 60) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return `${minutes} min`
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
