/** Puts an episode's records and its workflow's history on one line of time. Uses only times that one of them states. */
import type { HistoryBar, HistoryPage, HistoryRow, EpisodePage, TimelineBar } from '../pages.types.ts'

type Execution = HistoryPage['executions'][number]
type Activity = Execution['activities'][number]

export interface JoinedHistory {
  bars: HistoryBar[]
  rows: HistoryRow[]
  /** Events that were left unread, over all executions. */
  unread: number
}

export interface JoinInput {
  history: Pick<HistoryPage, 'executions' | 'atMs'>
  timeline: Timeline
}

export function joinHistory({ history: { executions, atMs }, timeline }: JoinInput): JoinedHistory {
  const played = turnsOf(timeline)
  const joined: JoinedHistory = { bars: [], rows: [], unread: 0 }
  let placements = 0
  let isFirstStep = false
  for (const execution of executions) {
    joined.unread += Math.max(0, execution.events - execution.eventsRead)
    for (const activity of execution.activities) {
      joined.bars.push(...barsOf(activity, atMs))
      joined.rows.push(rowOf(activity))
      if (activity.activity === 'openSandbox' && activity.state === 'completed') {
        placements += 1
        isFirstStep = true
      }
      if (activity.activity !== 'advanceEpisode') continue
      const resumed = resumingOf(activity, { played, isNewSandbox: isFirstStep && placements > 1, atMs })
      if (resumed !== null) joined.bars.push(resumed)
      isFirstStep = false
    }
    joined.rows.push(...execution.marks.map(markRow))
  }
  joined.rows.sort((a, b) => a.atMs - b.atMs)
  return joined
}

interface Played {
  fromMs: number
  toMs: number
  isSampling: boolean
}

function turnsOf({ bars, fromMs: zero }: Timeline): Played[] {
  if (zero === null) return []
  return bars
    .filter(({ what }) => what === 'sampling' || what === 'execution')
    .map(({ what, fromMs, toMs }) => ({
      fromMs: zero + fromMs,
      toMs: zero + toMs,
      isSampling: what === 'sampling',
    }))
}

const KINDS: Readonly<Record<string, HistoryBar['what']>> = {
  openSandbox: 'placing',
  advanceEpisode: 'playing',
  gradeSubmission: 'grading',
}

function barsOf(activity: Activity, atMs: number): HistoryBar[] {
  const { scheduledMs, startedMs, closedMs, attempt, state, queue } = activity
  const endMs = Math.max(scheduledMs, closedMs ?? atMs)
  const began = startedMs ?? endMs
  const name = activity.activity
  const before: HistoryBar =
    attempt > 1
      ? {
          what: 'retries',
          fromMs: scheduledMs,
          toMs: began,
          note: `${name}: ${attempt - 1} earlier ${attempt === 2 ? 'attempt' : 'attempts'}, with their queues`,
        }
      : { what: 'queue', fromMs: scheduledMs, toMs: began, note: `${name} in the queue ${queue}` }
  if (startedMs === null) return [before]
  const note = `${name}, attempt ${attempt}: ${state}`
  return [before, { what: KINDS[name] ?? 'other', fromMs: startedMs, toMs: endMs, note }]
}

/** From the start of a step that resumes an episode to its first new sample; null if the records have none. */
function resumingOf(
  { startedMs, closedMs, attempt }: Activity,
  { played, isNewSandbox, atMs }: { played: readonly Played[]; isNewSandbox: boolean; atMs: number },
): HistoryBar | null {
  if (startedMs === null || (!isNewSandbox && attempt < 2)) return null
  if (!played.some(({ toMs }) => toMs <= startedMs)) return null
  const next = played.find(({ fromMs, isSampling }) => isSampling && fromMs >= startedMs)
  if (next === undefined || next.fromMs > (closedMs ?? atMs)) return null
  const note = isNewSandbox
    ? 'recorded turns are replayed in a new sandbox'
    : `attempt ${attempt} asks the sandbox what it has, and replays what it lacks`
  return { what: 'resuming', fromMs: startedMs, toMs: next.fromMs, note }
}

function rowOf(activity: Activity): HistoryRow {
  const { scheduledMs, startedMs, closedMs, attempt, state, queue, failure, summary, worker } = activity
  const isFault = failure !== null || state === 'failed' || state === 'timed-out'
  const said = failure === null ? null : failure.code === null ? failure.message : `${failure.code}: ${failure.message}`
  const earlier = state === 'failed' || state === 'timed-out' || said === null ? said : `attempt before: ${said}`
  return {
    atMs: scheduledMs,
    queuedMs: startedMs === null || attempt > 1 ? null : startedMs - scheduledMs,
    ranMs: startedMs === null || closedMs === null ? null : closedMs - startedMs,
    activity: activity.activity,
    queue,
    attempt,
    state,
    note: [earlier, summary, worker === null ? null : `on ${worker}`].filter(Boolean).join(' · '),
    isFault,
  }
}

const MARKS: Readonly<Record<Execution['marks'][number]['what'], string>> = {
  signal: 'signal',
  'workflow-task-failed': 'workflow task failed',
  'workflow-task-timed-out': 'workflow task timed out',
  'cancel-asked': 'asked to cancel',
}

function markRow({ what, atMs, note }: Execution['marks'][number]): HistoryRow {
  const isFault = what === 'workflow-task-failed' || what === 'workflow-task-timed-out'
  return {
    atMs,
    queuedMs: null,
    ranMs: null,
    activity: MARKS[what],
    queue: '',
    attempt: 0,
    state: '',
    note,
    isFault,
  }
}

export interface TimelineFacts extends Pick<EpisodePage, 'startedAtMs' | 'turns' | 'moments'> {}

export interface Timeline {
  /** Zero of the bars, ms since 1970; null if no time is known. */
  fromMs: number | null
  bars: TimelineBar[]
}

/** How an episode spent its time, by the clocks of its workers: sampling, execution and the waits between them. */
export function timelineOf({ startedAtMs, turns, moments }: TimelineFacts): Timeline {
  const fromMs = originOf({ startedAtMs, moments })
  if (fromMs === null) return { fromMs, bars: [] }
  const of = (kind: 'placement' | 'grading-attempt'): TimelineBar[] =>
    moments
      .filter(({ what }) => what === kind)
      .map(({ what, atMs, note }) => ({ what, turn: null, fromMs: atMs - fromMs, toMs: atMs - fromMs, note }))
  const bars = of('placement')
  let free = (startedAtMs ?? fromMs) - fromMs
  for (const { turn, sampledAtMs, sampleMs, observedAtMs, wallMs, ended } of turns) {
    const from = Math.max(free, sampledAtMs - fromMs)
    const sampled = Math.max(free, sampledAtMs + sampleMs - fromMs)
    pushBar(bars, { what: 'waiting', turn, fromMs: free, toMs: from, note: 'before sampling' })
    pushBar(bars, { what: 'sampling', turn, fromMs: from, toMs: sampled, note: '' })
    free = sampled
    if (observedAtMs === null) continue
    const observed = observedAtMs - fromMs
    const ran = Math.max(free, observed - (wallMs ?? 0))
    pushBar(bars, { what: 'waiting', turn, fromMs: free, toMs: ran, note: 'before execution' })
    pushBar(bars, { what: 'execution', turn, fromMs: ran, toMs: observed, note: ended ?? '' })
    free = Math.max(free, observed)
  }
  return { fromMs, bars: [...bars, ...of('grading-attempt')] }
}

function originOf({ startedAtMs, moments }: Pick<TimelineFacts, 'startedAtMs' | 'moments'>): number | null {
  const placed = moments.filter(({ what }) => what === 'placement').map(({ atMs }) => atMs)
  const origin = Math.min(startedAtMs ?? Infinity, ...placed)
  return Number.isFinite(origin) ? origin : null
}

function pushBar(bars: TimelineBar[], bar: TimelineBar): void {
  if (bar.toMs > bar.fromMs) bars.push(bar)
}
