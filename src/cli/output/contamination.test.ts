import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { JsonReport } from '../../report/json-report.ts'
import { describeEvaluation } from './judge-evaluation.ts'

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

/** The cut-off's first instant is after it; the third date names another zone, in which it is the day after. */
const DATES = ['2024-11-30', '2024-12-31T23:59:59Z', '2025-01-01T01:00:00+02:00', '2025-01-01', '2025-06-01', null]
const ROWS = DATES.map((date, index) => ({
  ...rebench.row(`owner__thing-${index + 1}`),
  repo: `owner/${index % 2 === 0 ? 'thing' : 'other'}`,
  created_at: date,
}))

test('an evaluation of a published file with dates on both sides of the cut-off shows both rates, and what has no date apart', async () => {
  const run = 'nightly-2026-11-21-a'
  const attempts: (0 | 1)[][] = [
    [1, 1],
    [1, 0],
    [1, 1],
    [0, 0],
    [0, 1],
    [1, 1],
  ]
  const record = await makeEvaluatedRun({ store, root, run, rows: ROWS, attempts, cutoff: '2025-01-01' })
  assert.deepEqual(
    record.tasks.map(({ createdAt }) => createdAt === null),
    [false, false, false, false, false, true],
  )

  const stored = JSON.parse(await readFile(store.path(runKeys.report(run, 'report.json')), 'utf8')) as JsonReport
  const { before, after, unknown } = stored.stages[0]?.contamination ?? {}
  // Before: 1, 1/2, 1 of three tasks; since: 0 and 1/2; the one without a date was solved twice.
  assert.deepEqual(
    [before, after, unknown].map((side) => [side?.mean.toFixed(4), side?.tasks]),
    [
      ['0.8333', 3],
      ['0.2500', 2],
      ['1.0000', 1],
    ],
  )
  for (const side of [before, after, unknown]) {
    assert.ok(side !== null && side !== undefined)
    assert.ok(side.interval.low <= side.mean && side.mean <= side.interval.high)
    // Wide, because there are few: none of them proves anything.
    assert.ok(side.interval.high - side.interval.low > 0.5, JSON.stringify(side))
  }

  const page = await readFile(store.path(runKeys.report(run, 'report.html')), 'utf8')
  const cells = page.replaceAll(/<[^>]+>/g, '|').replaceAll(/\|[|\s]*/g, '|')
  const row =
    /\|nightly\|0\.833 ± 0\.167 \([^|]*\)\|3\|0\.250 ± 0\.250 \([^|]*\)\|2\|1\.000 \(one task: no SEM\) \([^|]*\)\|1\|no clear/
  assert.match(cells, row)

  const { stdout, exitCode } = await longhaul('report', run)
  assert.equal(exitCode, 0)
  assert.equal(stdout.match(/training data ends\n/g)?.length, 1)
  assert.match(
    stdout,
    /0\.833 ± 0\.167 \(.*  3  0\.250 ± 0\.250 \(.*  2  1\.000 \(one task: no SEM\) \(.*  1  no clear/,
  )

  const lines = describeEvaluation(record, '2025-01-01')
  assert.match(
    lines.join('\n'),
    /^contamination: before 2025-01-01 0\.833 .* on 3; since 0\.250 .* on 2; without a date 1\.000 .* on 1; no clear/m,
  )
})

test('where no task has a date nothing is said about either side; without a cut-off there is no table at all', async () => {
  const rows = ROWS.map((row) => ({ ...row, created_at: null }))
  const attempts: (0 | 1)[][] = rows.map(() => [1])
  const undated = await makeEvaluatedRun({ store, root, run: 'undated', rows, attempts, cutoff: '2025-01-01' })
  const report = await longhaul('report', 'undated', '--json')
  const { before, after, unknown } = (JSON.parse(report.stdout) as JsonReport).stages[0]?.contamination ?? {}
  assert.deepEqual([before, after, unknown?.tasks], [null, null, 6])
  assert.match(describeEvaluation(undated, '2025-01-01').join('\n'), /no task has a date: nothing can be said/)

  const plain = await makeEvaluatedRun({ store, root, run: 'plain', rows: ROWS, attempts, cutoff: null })
  assert.equal(describeEvaluation(plain, null).length, 2)
  assert.doesNotMatch((await longhaul('report', 'plain')).stdout, /training data ends/)
})
