import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TrendNight } from '../pages.types.ts'
import { trendLines } from './trend-lines.ts'

const costs = [
  { day: 1, cost: { mean: 2, currency: 'USD' } },
  { day: 2, cost: { mean: 3, currency: 'EUR' } },
  { day: 3, cost: null },
  { day: 4, cost: { mean: 4, currency: 'USD' } },
]
const nights = costs.map(({ day, cost }) => ({
  at: `1970-01-0${day}T00:00:00Z`,
  policy: 'v000001-aaaaaaaa',
  role: 'main',
  split: 'o/d/may',
  passAt1: 0.5,
  interval: null,
  cost,
})) as unknown as TrendNight[]

test("draws a line per currency of a policy's costs, and a night without costs splits none", () => {
  const day = 86_400
  assert.deepEqual(trendLines(nights, 'cost', 'policy'), [
    {
      label: 'v000001-aaaaaaaa · o/d/may (USD)',
      points: [
        { x: 0, y: 2 },
        { x: 3 * day, y: 4 },
      ],
    },
    { label: 'v000001-aaaaaaaa · o/d/may (EUR)', points: [{ x: day, y: 3 }] },
  ])
})

test('draws one line for every other metric regardless of the currency', () => {
  const lines = trendLines(nights, 'score', 'role')
  assert.deepEqual(
    lines.map(({ label, points }) => [label, points.length]),
    [['main · o/d/may', 4]],
  )
})
