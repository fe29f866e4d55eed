import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { findNewestSplit, newestOf } from './newest-split.ts'

const DATASET = 'nebius/SWE-rebench-leaderboard'
const REVISION = 'ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b'

const file = (split: string, index = 0, of = 1): string =>
  `data/${split}-${String(index).padStart(5, '0')}-of-${String(of).padStart(5, '0')}.parquet`

const serve = (paths: string[]) =>
  startHubServer({
    dataset: DATASET,
    revision: REVISION,
    files: Object.fromEntries(paths.map((path) => [path, new Uint8Array([1])])),
  })

test('the newest month is found in the listing of what main is now, whatever the order of the files', async () => {
  await using hub = await serve([
    'README.md',
    file('test'),
    file('2026_02'),
    file('2025_12'),
    file('2026_03', 1, 2),
    file('2026_03', 0, 2),
    'data/2026_01-00000-of-00001-0123abcd.parquet',
  ])
  assert.deepEqual(await findNewestSplit({ dataset: DATASET, revision: null, hubUrl: hub.url }), {
    schema: 'longhaul.pinned-split/1',
    dataset: DATASET,
    revision: REVISION,
    split: '2026_03',
    passedOver: [],
  })
})

test('a month that is still being published is passed over, and named', () => {
  const paths = [file('2026_02'), file('2026_03', 0, 2), file('2026_04', 2, 3)]
  assert.deepEqual(newestOf(paths), {
    newest: '2026_02',
    passedOver: ['2026_04: 1 of 3 files', '2026_03: 1 of 2 files'],
    others: [],
  })
})

test('only a year and a month are a monthly split', () => {
  const none = ['2026_13', '2026_00', '202603', 'x2026_03', '2026_03b', 'test', '20260_3']
  assert.deepEqual(newestOf([...none.map((split) => file(split)), 'data/2026_05.parquet']).newest, null)
  assert.equal(newestOf([file('2025-11'), file('2026-01'), file('2025_12')]).newest, '2026-01')
})

test('a data set without months says which splits it has, and a hub without the data set says so', async () => {
  await using hub = await serve([file('test'), file('filtered')])
  await assert.rejects(findNewestSplit({ dataset: DATASET, revision: null, hubUrl: hub.url }), {
    code: 'Config.NotFound',
    message: /monthly split such as 2026_03 in nebius\/SWE-rebench-leaderboard, got filtered, test\. Name one/,
  })
  await assert.rejects(findNewestSplit({ dataset: 'nebius/none', revision: null, hubUrl: hub.url }), {
    code: 'Config.NotFound',
  })
})
