/** How an episode spent its time: turns from its records, beside them the server's history. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { EpisodePage, HistoryBar, HistoryPage, TimelineBar } from '../../src/viewer/pages.types.ts'
import {
  type JoinedHistory,
  joinHistory,
  type Timeline as TimelineOfTurns,
  timelineOf,
} from '../../src/viewer/shared/timeline.ts'
import { type Bar, Bars } from './bars.tsx'
import { usePage } from './data.ts'
import { isStatic } from './is-static.ts'
import { seconds } from './parts.tsx'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

/** How often the server is queried while the episode is live. */
const REFRESH_MS = 5_000

const BAR_COLORS: Record<TimelineBar['what'], string> = {
  waiting: 'waiting',
  sampling: 'sampling',
  execution: 'execution',
  placement: 'event',
  'grading-attempt': 'event',
}

const HISTORY_COLORS: Record<HistoryBar['what'], string> = {
  queue: 'waiting',
  retries: 'retries',
  resuming: 'resuming',
  placing: 'placing',
  playing: 'playing',
  grading: 'grading',
  other: 'other',
}

interface TimelineProps {
  page: Pick<EpisodePage, 'row' | 'startedAtMs' | 'turns' | 'moments'>
  onTurn: (turn: number) => void
}

export function Timeline({ page, onTurn }: TimelineProps) {
  const history = useHistory(page.row.episode, page.row.state === 'running')
  const { startedAtMs, turns, moments } = page
  const timeline = useMemo(() => timelineOf({ startedAtMs, turns, moments }), [startedAtMs, turns, moments])
  const joined = useMemo(() => (history === null ? null : joinHistory({ history, timeline })), [history, timeline])
  const { zero, endMs, ofTurns, ofHistory } = useMemo(() => scaled(timeline, joined), [timeline, joined])
  const events = ofTurns.filter(({ isMarked }) => isMarked)
  const words = sumsOf(ofTurns, ['sampling', 'execution', 'waiting'])
  const more = sumsOf(ofHistory, ['queue', 'retries', 'placing', 'resuming', 'playing', 'grading'])
  return (
    <section>
      <h2>Time</h2>
      <p>
        {seconds(endMs)}. Turns, by their records: {words}.
        {ofHistory.length === 0 ? '' : ` Workflow, by its history: ${more}.`}
      </p>
      <Source history={history} unread={joined?.unread ?? 0} />
      <Bars label={`Timeline: ${words}`} bars={ofTurns} endMs={endMs} onTurn={onTurn} />
      <ul class="legend">
        <li class="sampling">sampling</li>
        <li class="execution">execution</li>
        <li class="waiting">waiting: queues, retries, replays</li>
      </ul>
      {ofHistory.length === 0 ? null : (
        <>
          <Bars label={`History: ${more}`} bars={ofHistory} endMs={endMs} />
          <ul class="legend">
            <li class="waiting">queue</li>
            <li class="retries">retries</li>
            <li class="placing">placing</li>
            <li class="playing">playing turns</li>
            <li class="resuming">resuming, replaying</li>
            <li class="grading">grading</li>
            <li class="other">other activities</li>
          </ul>
        </>
      )}
      {events.length === 0 ? null : (
        <ul>
          {events.map(({ fromMs, note }, at) => (
            <li key={at}>
              {seconds(fromMs)}: <Visible text={note} />
            </li>
          ))}
        </ul>
      )}
      {joined === null || joined.rows.length === 0 ? null : (
        <VirtualRows
          label="History"
          columns={['at', 'activity', 'queue', 'waited', 'attempt', 'ran', 'state', 'what it says']}
          count={joined.rows.length}
          chosen={-1}
          onChoose={() => undefined}
          className="history"
          row={(index) => {
            const row = joined.rows[index]
            if (row === undefined) return []
            return [
              seconds(row.atMs - zero),
              <Visible text={row.activity} />,
              <Visible text={row.queue} />,
              row.queuedMs === null ? '' : seconds(row.queuedMs),
              row.attempt === 0 ? '' : row.attempt,
              row.ranMs === null ? '' : seconds(row.ranMs),
              `${row.isFault ? '⚠ ' : ''}${row.state}`,
              <Visible text={row.note.slice(0, 500).replaceAll('\n', ' ⏎ ')} />,
            ]
          }}
        />
      )}
    </section>
  )
}

interface Scaled {
  /** Start of the line, ms since 1970: the earliest time in the records or the history. */
  zero: number
  endMs: number
  ofTurns: Bar[]
  ofHistory: Bar[]
}

function scaled(timeline: TimelineOfTurns, joined: JoinedHistory | null): Scaled {
  const history = joined?.bars ?? []
  const zero = history.reduce((least, { fromMs }) => Math.min(least, fromMs), timeline.fromMs ?? Infinity)
  const shift = timeline.fromMs === null ? 0 : timeline.fromMs - zero
  const ofTurns = timeline.bars.map((bar): Bar => {
    const color = BAR_COLORS[bar.what]
    return { ...bar, color, fromMs: bar.fromMs + shift, toMs: bar.toMs + shift, isMarked: color === 'event' }
  })
  const ofHistory = history.map((bar): Bar => {
    const at = { fromMs: bar.fromMs - zero, toMs: bar.toMs - zero }
    return {
      ...bar,
      ...at,
      color: HISTORY_COLORS[bar.what],
      turn: null,
      isMarked: true,
      isLow: bar.what === 'resuming',
    }
  })
  const endMs = [...ofTurns, ...ofHistory].reduce((most, { toMs }) => Math.max(most, toMs), 1)
  return { zero, endMs, ofTurns, ofHistory }
}

/** States which sources are shown. */
function Source({ history, unread }: { history: HistoryPage | null; unread: number }) {
  if (isStatic) return <p class="note">From records alone: a static report asks no server.</p>
  if (history === null) return <p class="note">Asking the server for the workflow’s history …</p>
  if (history.shows === 'records') {
    return (
      <p class="note">
        From records alone: <Visible text={history.why ?? ''} />
      </p>
    )
  }
  const [last] = history.executions.slice(-1)
  return (
    <p class="note">
      From records and from Temporal’s history of <Visible text={last?.workflowId ?? ''} />, {history.executions.length}{' '}
      {history.executions.length === 1 ? 'execution' : 'executions'}, {(last?.status ?? '').toLowerCase()}
      {unread === 0 ? '' : `; its last ${unread.toLocaleString('en')} events are not shown`}. Turns have the workers’
      clocks, activities the server’s.
    </p>
  )
}

/** Null until the server has answered or proved unreachable. */
function useHistory(episode: string, isRunning: boolean): HistoryPage | null {
  const [version, setVersion] = useState(0)
  const loaded = usePage<HistoryPage>(isStatic ? null : `history/${episode}`, version)
  useEffect(() => {
    if (isStatic) return
    if (!isRunning) {
      // An episode that ended while the page was open has new events.
      setVersion((before) => (before === 0 ? 0 : before + 1))
      return
    }
    const timer = setInterval(() => setVersion((before) => before + 1), REFRESH_MS)
    return () => clearInterval(timer)
  }, [episode, isRunning])
  if (loaded.state === 'there') return loaded.page
  if (loaded.state === 'loading') return null
  return { kind: 'history', episode, shows: 'records', why: loaded.why, atMs: 0, executions: [] }
}

function sumsOf(bars: readonly Bar[], kinds: string[]): string {
  const total = (kind: string): number =>
    bars.filter(({ what }) => what === kind).reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0)
  return kinds.map((kind) => `${kind} ${seconds(total(kind))}`).join(', ')
}
