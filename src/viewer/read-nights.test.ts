/** Trends over nights whose records the activity of a night wrote. */
import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../test/support/command-line.ts'
import { nightRecord } from '../../test/support/night-records.ts'
import { storeViewedRun } from '../../test/support/viewed-run.ts'
import type { ArtifactStore } from '../contracts/artifacts.types.ts'
import { nightKeys, runKeys } from '../contracts/keys.ts'
import type { NightRecord } from '../contracts/nights.types.ts'
import { createPages, type Pages } from './pages.ts'
import type { NightsPage, RunPage, TrendPage } from './pages.types.ts'
import { trendLines } from './shared/trend-lines.ts'

let store: ArtifactStore
let pages: Pages
let close: () => Promise<void>

async function keep(record: NightRecord): Promise<string> {
  const { run, name } = record.night
  await store.putRecord(runKeys.night(run, name), record)
  const key = nightKeys.night(record.night)
  await store.putRecord(key, record)
  return key
}

before(async () => {
  ;({ store, close } = await useOwnStore())
  pages = createPages(store)
  await storeViewedRun(store, 'night-2')
  // Written in another order than they began.
  await keep(
    nightRecord({
      run: 'night-2',
      at: '2026-05-02T02:00:00.000Z',
      policy: 'v000002-bbbbbbbb',
      outcome: 'regressed',
      before: 'night-1',
    }),
  )
  await keep(nightRecord({ run: 'night-1', at: '2026-05-01T02:00:00.000Z', policy: 'v000001-aaaaaaaa', passAt1: 0.75 }))
  await keep(
    nightRecord({
      run: 'night-2',
      at: '2026-05-02T02:00:00.000Z',
      policy: 'v000001-aaaaaaaa',
      name: 'nightly-old',
      role: 'policy:v000001-aaaaaaaa',
      sampledTokens: null,
    }),
  )
  await keep(
    nightRecord({
      run: 'night-3',
      at: '2026-06-01T02:00:00.000Z',
      policy: 'v000002-bbbbbbbb',
      split: 'o/d/2026_05',
      cost: { mean: 0.5, currency: 'USD' },
    }),
  )
  await keep(nightRecord({ series: 'other', run: 'x', at: '2026-01-01T02:00:00.000Z', policy: 'v000000-cccccccc' }))
})

after(() => close())

const trend = async (series: string): Promise<TrendPage> => (await pages.read(`trend/${series}`)) as TrendPage

test('lists the nights of a series, oldest first, with score, interval, loss, effort, cost and comparison', async () => {
  const { nights, earlier, unreadable } = await trend('nightly')
  assert.deepEqual([earlier, unreadable], [0, 0])
  assert.deepEqual(
    nights.map(({ run, name, policy, passAt1, lost }) => [run, name, policy, passAt1, lost]),
    [
      ['night-1', 'nightly', 'v000001-aaaaaaaa', 0.75, 0.05],
      ['night-2', 'nightly', 'v000002-bbbbbbbb', 0.5, 0.05],
      ['night-2', 'nightly-old', 'v000001-aaaaaaaa', 0.5, 0.05],
      ['night-3', 'nightly', 'v000002-bbbbbbbb', 0.5, 0.05],
    ],
  )
  const [, second] = nights
  assert.deepEqual(second?.interval, { low: 0.4, high: 0.6 })
  assert.deepEqual(
    second?.verdicts.map(({ against, outcome, before }) => [against, outcome, before]),
    [['last', 'regressed', { run: 'night-1', name: 'nightly' }]],
  )
  assert.match(second?.verdicts[0]?.statement ?? '', /0\.75/)
})

test('draws one line per policy and split', async () => {
  const { nights } = await trend('nightly')
  const seconds = (at: string): number => Date.parse(at) / 1000
  const may = { low: 0.4, high: 0.6 }
  assert.deepEqual(trendLines(nights, 'score', 'policy'), [
    {
      label: 'v000001-aaaaaaaa · o/d/2026_04',
      points: [
        { x: seconds('2026-05-01T02:00Z'), y: 0.75, ...may },
        { x: seconds('2026-05-02T02:00Z'), y: 0.5, ...may },
      ],
    },
    { label: 'v000002-bbbbbbbb · o/d/2026_04', points: [{ x: seconds('2026-05-02T02:00Z'), y: 0.5, ...may }] },
    { label: 'v000002-bbbbbbbb · o/d/2026_05', points: [{ x: seconds('2026-06-01T02:00Z'), y: 0.5, ...may }] },
  ])
  // The night's own policy is one line across promotions.
  assert.deepEqual(
    trendLines(nights, 'lost', 'role').map(({ label, points }) => [label, points.map(({ y }) => y)]),
    [
      ['main · o/d/2026_04', [0.05, 0.05]],
      ['policy:v000001-aaaaaaaa · o/d/2026_04', [0.05]],
      ['main · o/d/2026_05', [0.05]],
    ],
  )
  assert.deepEqual(
    trendLines(nights, 'cost', 'policy').map(({ label, points }) => [label, points.length]),
    [['v000002-bbbbbbbb · o/d/2026_05 (USD)', 1]],
  )
  assert.equal(trendLines(nights, 'tokens', 'role').length, 2)
})

test('has an index of series and the series of a run, and no page for an unknown name', async () => {
  const { series } = (await pages.read('nights')) as NightsPage
  assert.deepEqual(
    series.map(({ series, evaluations, last }) => [series, evaluations, last?.run]),
    [
      ['nightly', 4, 'night-3'],
      ['other', 1, 'x'],
    ],
  )
  assert.deepEqual(((await pages.read('run/night-2')) as RunPage).series, ['nightly'])
  for (const name of [
    'trend/',
    'trend/none',
    'trend/..',
    'trend/nightly/..',
    'trend/nightly/20260501T020000.000Z',
    'nights/nightly',
    'trend/__proto__',
  ])
    assert.equal(await pages.read(name), null, name)
})

test('counts a record with a wrong hash and shows the others', async () => {
  const key = await keep(
    nightRecord({ series: 'torn', run: 'torn-2', at: '2026-05-02T02:00:00.000Z', policy: 'v000001-aaaaaaaa' }),
  )
  await keep(nightRecord({ series: 'torn', run: 'torn-1', at: '2026-05-01T02:00:00.000Z', policy: 'v000001-aaaaaaaa' }))
  await writeFile(store.path(key), '{"schema":"longhaul.night/1","sha256":"00"}')
  const { nights, unreadable } = await trend('torn')
  assert.deepEqual([nights.map(({ run }) => run), unreadable], [['torn-1'], 1])
  const { series } = (await pages.read('nights')) as NightsPage
  assert.equal(series.find(({ series }) => series === 'torn')?.last?.run, 'torn-1')
})
