/** Where an episode's time went: turns from its records, and beside them what the server's history says. */
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { EpisodePage, HistoryBar, HistoryPage, TimelineBar } from '../../src/viewer/pages.types.ts'
import { joinHistory } from '../../src/viewer/shared/join-timeline.ts'
import { isStatic, usePage } from './data.ts'
import { seconds } from './parts.tsx'
import { Visible } from './text.tsx'
import { VirtualRows } from './virtual-rows.tsx'

/** While the episode is played: the server is asked again. */
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
  page: Pick<EpisodePage, 'row' | 'timeline' | 'timelineFromMs'>
  onTurn: (turn: number) => void
}

export function Timeline({ page, onTurn }: TimelineProps) {
  const history = useHistory(page.row.episode, page.row.state === 'running')
  const { timeline, timelineFromMs } = page
  const joined = useMemo(
    () => (history === null ? null : joinHistory({ history, page: { timeline, timelineFromMs } })),
    [history, timeline, timelineFromMs],
  )
  const bars = joined?.bars ?? []
  const zero = Math.min(timelineFromMs ?? Infinity, ...bars.map(({ fromMs }) => fromMs))
  // Milliseconds from the first that is known to where the records begin.
  const shift = timelineFromMs === null ? 0 : timelineFromMs - zero
  const end = Math.max(1, ...timeline.map(({ toMs }) => toMs + shift), ...bars.map(({ toMs }) => toMs - zero))
  const events = timeline.filter(({ what }) => what === 'placement' || what === 'grading-attempt')
  const words = sumsOf(timeline, ['sampling', 'execution', 'waiting'])
  const more = sumsOf(bars, ['queue', 'retries', 'placing', 'resuming', 'playing', 'grading'])
  return (
    <section>
      <h2>Time</h2>
      <p>
        {seconds(end)}. Turns, by their records: {words}.
        {bars.length === 0 ? '' : ` Workflow, by its history: ${more}.`}
      </p>
      <Source history={history} unread={joined?.unread ?? 0} />
      <svg
        class="timeline"
        viewBox="0 0 1000 24"
        preserveAspectRatio="none"
        role="img"
        aria-label={`Timeline: ${words}`}
      >
        {timeline.map(({ what, fromMs, toMs, turn, note }, at) => (
          <rect
            key={at}
            class={BAR_COLORS[what]}
            x={((fromMs + shift) / end) * 1000}
            width={Math.max(1.5, ((toMs - fromMs) / end) * 1000)}
            y={0}
            height={24}
            onClick={() => turn !== null && onTurn(turn)}
          >
            <title>{`${what}${turn === null ? '' : ` of turn ${turn}`}: ${seconds(toMs - fromMs)} ${note}`}</title>
          </rect>
        ))}
      </svg>
      <ul class="legend">
        <li class="sampling">sampling</li>
        <li class="execution">execution</li>
        <li class="waiting">waiting: queues, retries, replays</li>
      </ul>
      {bars.length === 0 ? null : (
        <>
          <svg
            class="timeline"
            viewBox="0 0 1000 24"
            preserveAspectRatio="none"
            role="img"
            aria-label={`History: ${more}`}
          >
            {bars.map(({ what, fromMs, toMs, note }, at) => (
              <rect
                key={at}
                class={HISTORY_COLORS[what]}
                x={((fromMs - zero) / end) * 1000}
                width={Math.max(1.5, ((toMs - fromMs) / end) * 1000)}
                y={what === 'resuming' ? 14 : 0}
                height={what === 'resuming' ? 10 : 24}
              >
                <title>{`${what}: ${seconds(toMs - fromMs)} ${note}`}</title>
              </rect>
            ))}
          </svg>
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
              {seconds(fromMs + shift)}: <Visible text={note} />
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

/** Says which of the two the reader sees. */
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

/** Null until the server, or that there is none, has been told. */
function useHistory(episode: string, isRunning: boolean): HistoryPage | null {
  const [version, setVersion] = useState(0)
  const loaded = usePage<HistoryPage>(isStatic ? null : `history/${episode}`, version)
  useEffect(() => {
    if (isStatic) return
    if (!isRunning) {
      // What ended while the page was open has events that it has not.
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

function sumsOf<W extends string>(bars: readonly { what: string; fromMs: number; toMs: number }[], kinds: W[]): string {
  const total = (kind: W): number =>
    bars.filter(({ what }) => what === kind).reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0)
  return kinds.map((kind) => `${kind} ${seconds(total(kind))}`).join(', ')
}
