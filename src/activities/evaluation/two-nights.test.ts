/** Nights over a data set that grows by a month between them, against a hub of the published layout. */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { leaderboard } from '../../../test/support/datasets/published-rows.ts'
import { writeParquet } from '../../../test/support/datasets/write-parquet.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import type { Attempt } from '../../../test/support/evaluation-records.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { nightKeys, runKeys } from '../../contracts/keys.ts'
import type { NightRecord } from '../../contracts/nights.types.ts'
import type { CompareRecipe } from '../../contracts/recipe.types.ts'
import type { PinnedSplit } from '../../contracts/suites.types.ts'
import type { SuiteSource } from '../../contracts/tasks.types.ts'
import { readOrThrow } from '../runtime/stored-records.ts'
import { recordNight } from './record-night.ts'

const DATASET = 'nebius/SWE-rebench-leaderboard'
const MARCH = 'a'.repeat(40)
const APRIL = 'b'.repeat(40)
const COMPARE: CompareRecipe = { last: true, baseline: null, margin: 0.02, confidence: 0.95, minGraded: 0.95 }
const NEWEST: SuiteSource = {
  kind: 'hub',
  dataset: DATASET,
  revision: null,
  split: 'newest',
  filters: [],
  ids: null,
  evidence: null,
  refused: 'fail',
  limit: null,
}

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

type Row = Record<string, unknown>

const march = Array.from({ length: 12 }, (_, index) => leaderboard.row(`owner__thing-${index + 10}`))
/** One task is published again as it was, one with another row. */
const april = [
  ...Array.from({ length: 10 }, (_, index) => leaderboard.row(`owner__thing-${index + 50}`, '2026-04-02')),
  march[0] as Row,
  { ...march[1], problem_statement: 'Told in other words.' },
]

function publish(revision: string, months: Record<string, Row[]>) {
  const files = Object.entries(months).map(([split, rows]) => [
    `data/${split}-00000-of-00001.parquet`,
    writeParquet({ schema: leaderboard.schema, rows }),
  ])
  return startHubServer({ dataset: DATASET, revision, files: Object.fromEntries(files) as Record<string, Uint8Array> })
}

const attemptsOf = (tasks: number, kind: 'resolved' | 'unresolved'): Attempt[][] =>
  Array.from({ length: tasks }, () => Array.from({ length: 2 }, () => (kind === 'resolved' ? 1 : 0)))

async function night(
  run: string,
  at: string,
  { url, attempts, compare = COMPARE }: { url: string; attempts: Attempt[][]; compare?: CompareRecipe },
): Promise<NightRecord> {
  await makeEvaluatedRun({ store, root, run, rows: [], attempts, cutoff: null, hub: { source: NEWEST, url }, compare })
  await recordNight(store, { run, name: 'nightly', at, series: 'nightly', role: 'main' })
  return readOrThrow<NightRecord>(store, runKeys.night(run, 'nightly'))
}

test('the night after a new month is published uses the new split and names its tasks in common with the last', async () => {
  await using before = await publish(MARCH, { '2026_02': march.slice(0, 1), '2026_03': march })
  await using later = await publish(APRIL, { '2026_03': march, '2026_04': april })
  const first = await night('one', '2026-04-30T02:00:00.000Z', {
    url: before.url,
    attempts: attemptsOf(12, 'resolved'),
  })
  assert.equal(first.verdicts[0]?.outcome, 'not-compared')
  assert.match(first.verdicts[0].statement, /no earlier night of nightly/)
  assert.deepEqual([first.night.split, first.night.revision], [`${DATASET}/2026_03`, MARCH])

  const second = await night('two', '2026-05-01T02:00:00.000Z', {
    url: later.url,
    attempts: attemptsOf(12, 'unresolved'),
  })
  assert.deepEqual([second.night.split, second.night.revision], [`${DATASET}/2026_04`, APRIL])
  const [verdict] = second.verdicts
  assert.deepEqual(second.common, ['owner__thing-10'])
  assert.deepEqual(verdict?.tasks, { common: 1, onlyBefore: 10, onlyAfter: 10, otherRows: 1 })
  assert.match(verdict?.statement ?? '', /1 common tasks, left out: 10 only before, 10 only after, 1 with another row/)
  assert.equal(verdict?.before?.run, 'one')

  // The same month again: every task is common, and what got better is proven.
  const third = await night('three', '2026-05-02T02:00:00.000Z', {
    url: later.url,
    attempts: attemptsOf(12, 'resolved'),
  })
  assert.equal(third.verdicts[0]?.outcome, 'improved')
  assert.equal(third.verdicts[0].before?.run, 'two')
  const fourth = await night('four', '2026-05-03T02:00:00.000Z', {
    url: later.url,
    attempts: attemptsOf(12, 'unresolved'),
    compare: { ...COMPARE, baseline: 'two' },
  })
  assert.deepEqual(
    fourth.verdicts.map(({ against, outcome, before }) => [against, outcome, before?.run]),
    [
      ['last', 'regressed', 'three'],
      ['baseline', 'cannot-exclude', 'two'],
    ],
  )
  assert.match(
    fourth.verdicts[0]?.statement ?? '',
    /^regressed: delta\.upper −0\.\d{3} < −0\.020 \(difference −1\.000.*12 common tasks\)$/,
  )
  assert.equal((await store.list(nightKeys.series('nightly'))).length, 4)
})

test('a run that is continued after the next month is published keeps its split', async () => {
  await using before = await publish(MARCH, { '2026_03': march })
  await using later = await publish(APRIL, { '2026_03': march, '2026_04': april })
  const attempts = attemptsOf(12, 'resolved')
  const first = await night('kept', '2026-04-30T03:00:00.000Z', { url: before.url, attempts })
  // The hub has moved on; preparing the suite again, as a continued run does, asks for the recorded split.
  const again = await night('kept', '2026-05-04T03:00:00.000Z', { url: later.url, attempts })
  assert.deepEqual(again, first)
  const pin = await readOrThrow<PinnedSplit>(store, runKeys.pinnedSplit('kept', 'heldOut'))
  assert.deepEqual([pin.revision, pin.split], [MARCH, '2026_03'])
})

test('a night whose baseline is gone keeps its score and names what is missing', async () => {
  await using hub = await publish(MARCH, { '2026_03': march })
  const { verdicts } = await night('lost', '2026-04-30T04:00:00.000Z', {
    url: hub.url,
    attempts: attemptsOf(12, 'resolved'),
    compare: { ...COMPARE, last: false, baseline: 'absent:nightly' },
  })
  assert.deepEqual(
    verdicts.map(({ against, outcome }) => [against, outcome]),
    [['baseline', 'not-compared']],
  )
  assert.match(verdicts[0]?.statement ?? '', /Config\.NotFound: .*absent/)
})
