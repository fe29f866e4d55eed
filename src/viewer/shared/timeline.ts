/** Where an episode's time went, by the clocks of its workers: sampling, execution, and the time between that neither took. */
import type { EpisodePage, TimelineBar } from '../pages.types.ts'

export interface TimelineFacts extends Pick<EpisodePage, 'startedAtMs' | 'turns' | 'moments'> {}

export interface Timeline {
  /** Zero of its bars, ms since 1970; null where it has none. */
  fromMs: number | null
  bars: TimelineBar[]
}

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
    const sampled = sampledAtMs - fromMs
    const from = Math.max(free, sampled - sampleMs)
    pushBar(bars, { what: 'waiting', turn, fromMs: free, toMs: from, note: 'before sampling' })
    pushBar(bars, { what: 'sampling', turn, fromMs: from, toMs: sampled, note: '' })
    free = Math.max(free, sampled)
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
