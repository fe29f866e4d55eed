/** Lines of a trend page, with their points. */
import type { TrendNight } from '../pages.types.ts'

export const TREND_METRICS = {
  score: 'pass@1',
  lost: 'infrastructure loss',
  turns: 'turns of an attempt',
  tokens: 'sampled tokens of an attempt',
  cost: 'cost of an attempt',
} as const

export type TrendMetric = keyof typeof TREND_METRICS

/** `policy`: a line per policy and split. `role`: a line per evaluation of a night and split, whatever its policy. */
export type TrendLines = 'policy' | 'role'

export interface TrendPoint {
  /** Seconds since 1970. */
  x: number
  y: number
  /** Bounds of the interval, if the metric has one. */
  low?: number
  high?: number
}

export interface TrendLine {
  label: string
  points: TrendPoint[]
}

/** Never joins splits, since their tasks differ, nor costs of two currencies. Nights without the metric have no point. */
export function trendLines(nights: readonly TrendNight[], metric: TrendMetric, by: TrendLines): TrendLine[] {
  const groups = Map.groupBy(nights, (night) => labelOf(night, metric, by))
  return [...groups]
    .map(([label, ofLine]) => ({ label, points: pointsOf(ofLine, metric) }))
    .filter(({ points }) => points.length > 0)
}

/** The label of a line of costs names its currency. */
function labelOf({ policy, role, split, cost }: TrendNight, metric: TrendMetric, by: TrendLines): string {
  const label = `${by === 'policy' ? policy : role} · ${split}`
  return metric === 'cost' && cost !== null ? `${label} (${cost.currency})` : label
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
