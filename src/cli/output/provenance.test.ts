import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { writeParquet } from '../../../test/support/datasets/write-parquet.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import { recomputeReport } from '../../activities/evaluation/recompute-report.ts'
import { readSuiteOrigin, verdictSuite } from '../../activities/evaluation/suite-origin.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { JsonReport } from '../../report/json-report.ts'
import { describeEvaluation } from './judge-evaluation.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const DATASET = 'nebius/SWE-rebench-leaderboard'
const REVISION = 'ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b'

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

const ROWS = ['2025-05-02', '2025-06-02', '2025-07-02'].map((day, index) => ({
  ...rebench.row(`owner__thing-${index + 1}`),
  created_at: new Date(day),
}))
const ATTEMPTS: (0 | 1)[][] = [[1], [0], [1]]

async function hashOf(file: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(file))
    .digest('hex')
}

async function reportJson(run: string): Promise<JsonReport> {
  return JSON.parse(await readFile(store.path(runKeys.report(run, 'report.json')), 'utf8')) as JsonReport
}

test('an evaluation of a published file names it, its hash and its filters in record, report files and commands', async () => {
  const input = { store, root, run: 'published', rows: ROWS, attempts: ATTEMPTS, cutoff: null }
  const record = await makeEvaluatedRun({ ...input, filters: ['created>=2025-05-01', 'files<=7'] })
  const sha256 = await hashOf(join(root, 'published.jsonl'))
  const origin = {
    schema: 'longhaul.suite-origin/1',
    dataset: 'published.jsonl',
    revision: null,
    split: null,
    files: [{ name: 'published.jsonl', sha256 }],
    filters: [
      { filter: 'created>=2025-05-01', kept: 3 },
      { filter: 'files<=7', kept: 3 },
    ],
  }
  assert.deepEqual(record.origin, origin)
  assert.deepEqual((await reportJson('published')).suites, [
    { suite: record.suite, uses: ['eval-nightly'], tasks: 3, origin },
  ])
  const page = await readFile(store.path(runKeys.report('published', 'report.html')), 'utf8')
  const shown = `published.jsonl (${sha256.slice(0, 12)})`
  assert.ok(page.includes(shown) && page.includes('created&gt;=2025-05-01 (3 left), files&lt;=7 (3 left)'), page)
  assert.ok((await longhaul('report', 'published')).stdout.includes(shown))
  assert.match(describeEvaluation(record, null).join('\n'), /^data set {2}published\.jsonl, file .*filtered by/m)
  assert.deepEqual(await verdictSuite(store, record.suite), {
    hash: record.suite,
    dataset: 'published.jsonl',
    revision: sha256,
  })
})

test('rows that were imported from a hub carry its data set, revision, split and filters; rows that were edited do not', async () => {
  const parquet = writeParquet({ schema: rebench.schema, rows: ROWS })
  const files = { 'data/2025_05-00000-of-00001.parquet': parquet }
  await using server = await startHubServer({ dataset: DATASET, revision: REVISION, files })
  const output = join(root, 'may.jsonl')
  const place = ['--revision', REVISION, '--split', '2025_05', '--hub-url', server.url]
  const imported = await longhaul('tasks', 'import', DATASET, ...place, '--filter', 'lines<=99', '--output', output)
  assert.equal(imported.exitCode, 0, imported.stderr)

  const input = { store, root, rows: ROWS, attempts: ATTEMPTS, cutoff: null, kind: 'rows' as const }
  const { origin } = await makeEvaluatedRun({ ...input, run: 'may', path: 'may.jsonl' })
  assert.deepEqual([origin?.dataset, origin?.revision, origin?.split], [DATASET, REVISION, '2025_05'])
  assert.deepEqual(origin?.files, [{ name: 'may.jsonl', sha256: await hashOf(output) }])
  assert.deepEqual(origin?.filters, [{ filter: 'lines<=99', kept: 3 }])

  // The record beside them is of other rows now: it must not lend them its name.
  const [first = '', ...rest] = (await readFile(output, 'utf8')).trim().split('\n')
  const edited = { ...(JSON.parse(first) as object), problem_statement: 'Something else.' }
  await writeFile(output, [JSON.stringify(edited), ...rest].join('\n'))
  const other = await makeEvaluatedRun({ ...input, run: 'edited', path: 'may.jsonl' })
  assert.deepEqual([other.origin?.dataset, other.origin?.revision, other.origin?.filters], ['may.jsonl', null, []])
  assert.notEqual(other.suite, (await reportJson('may')).suites[0]?.suite)
})

test('suites and evaluations of before this was recorded are read, and recomputed as they were', async () => {
  const input = { store, root, run: 'older', rows: ROWS, attempts: ATTEMPTS, cutoff: null }
  const record = await makeEvaluatedRun({ ...input, filters: ['files<=6'] })
  const { origin, ...older } = record
  assert.ok(origin !== undefined)
  await rm(store.path(suiteKeys.origin(record.suite)))
  await rm(store.path(runKeys.evaluation('older', 'nightly')))
  await putPart(store, runKeys.evaluation('older', 'nightly'), older)
  // The import's own record still tells.
  assert.deepEqual(await readSuiteOrigin(store, record.suite), origin)
  const [evaluation] = await recomputeReport(store, 'older')
  assert.equal(evaluation?.state, 'same')
  await rm(store.path(suiteKeys.imported(record.suite)))
  assert.deepEqual(await readSuiteOrigin(store, record.suite), {
    ...origin,
    files: [],
    filters: [{ filter: 'files<=6', kept: null }],
  })
  assert.equal(await readSuiteOrigin(store, 'f'.repeat(64)), null)
})
