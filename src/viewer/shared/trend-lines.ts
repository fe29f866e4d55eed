/** Which lines a page of trends draws, and their points. */
import type { TrendNight } from '../pages.types.ts'

export const TREND_METRICS = {
  score: 'pass@1',
  lost: 'infrastructure loss',
  turns: 'turns of an attempt',
  tokens: 'sampled tokens of an attempt',
  cost: 'cost of an attempt',
} as const

export type TrendMetric = keyof typeof TREND_METRICS

/** `policy`: a line for each policy and split. `role`: one for each evaluation of a night, whatever policy it plays, and split. */
export type TrendLines = 'policy' | 'role'

export interface TrendPoint {
  /** Seconds since 1970. */
  x: number
  y: number
  /** Of the interval, where the metric has one. */
  low?: number
  high?: number
}

export interface TrendLine {
  label: string
  points: TrendPoint[]
}

/** Splits are never joined: other tasks are another question. Nights without the metric leave no point. */
export function trendLines(nights: readonly TrendNight[], metric: TrendMetric, by: TrendLines): TrendLine[] {
  const groups = Map.groupBy(nights, ({ policy, role, split }) => `${by === 'policy' ? policy : role} · ${split}`)
  return [...groups]
    .map(([label, ofLine]) => ({ label: labelOf(label, metric, ofLine), points: pointsOf(ofLine, metric) }))
    .filter(({ points }) => points.length > 0)
}

/** Money of two currencies is never one line's: the label says which. */
function labelOf(label: string, metric: TrendMetric, nights: readonly TrendNight[]): string {
  if (metric !== 'cost') return label
  const currencies = new Set(nights.flatMap(({ cost }) => (cost === null ? [] : [cost.currency])))
  return `${label} (${[...currencies].join(', ')})`
}

function pointsOf(nights: readonly TrendNight[], metric: TrendMetric): TrendPoint[] {
  return nights.flatMap((night) => {
    const y = valueOf(night, metric)
    const x = Date.parse(night.at) / 1000
    if (y === null || !Number.isFinite(x)) return []
    const { interval } = night
    return [{ x, y, ...(metric === 'score' && interval !== null ? { low: interval.low, high: interval.high } : {}) }]
  })
}

function valueOf({ passAt1, lost, turns, sampledTokens, cost }: TrendNight, metric: TrendMetric): number | null {
  switch (metric) {
    case 'score':
      return passAt1
    case 'lost':
      return lost
    case 'turns':
      return turns
    case 'tokens':
      return sampledTokens
    case 'cost':
      return cost?.mean ?? null
  }
}
