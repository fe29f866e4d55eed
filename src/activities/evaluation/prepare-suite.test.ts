import assert from 'node:assert/strict'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { putPart } from '../../../test/support/record-examples.ts'
import { startHubServer } from '../../../test/support/datasets/hub-server.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { writeParquet } from '../../../test/support/datasets/write-parquet.ts'
import { plainValue } from '../../adapters/datasets/plain-value.ts'
import { loadPublished, loadTasksAndFile } from '../../adapters/datasets/load-tasks.ts'
import { findNewestSplit } from '../../adapters/datasets/newest-split.ts'
import { identityOfImport } from '../../adapters/datasets/published-suite.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { gateKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import type { DataRecipe, Recipe } from '../../contracts/recipe.types.ts'
import type { ImportedSuite } from '../../contracts/suites.types.ts'
import type { PublishedPart, SuiteManifest, SuiteSource, Task } from '../../contracts/tasks.types.ts'
import { createTaskReader, readOrThrow } from '../runtime/stored-records.ts'
import { prepareSuite } from './prepare-suite.ts'

const DATASET = 'nebius/SWE-rebench-leaderboard'
const REVISION = 'ab4805dae879e4f4ef81bf9e5cf5afa849f7c55b'
const OFF = { hiddenNames: 'keep', maxFiles: null, maxLines: null, dropLlmScore: null, flakyTrials: null } as const
const PART: PublishedPart = { filters: [], ids: null, evidence: null, refused: 'fail', limit: null }

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

const ROWS: Record<string, unknown>[] = ['2025-05-02', '2025-06-02', '2025-07-02'].map((day, index) => ({
  ...rebench.row(`owner__thing-${index + 1}`),
  created_at: new Date(day),
}))

function hub(changes: object = {}): SuiteSource {
  return { kind: 'hub', dataset: DATASET, revision: REVISION, split: '2025_05', ...structuredClone(PART), ...changes }
}

function serve(rows: Record<string, unknown>[] = ROWS) {
  const file = writeParquet({ schema: rebench.schema, rows })
  return startHubServer({
    dataset: DATASET,
    revision: REVISION,
    files: { 'data/2025_05-00000-of-00001.parquet': file },
  })
}

function prepare(
  source: SuiteSource,
  hubUrl: string | null,
  options: {
    filters?: Partial<DataRecipe['filters']>
    which?: string
    suites?: Record<string, SuiteSource>
    tasks?: number
    quick?: string[]
    run?: string
  } = {},
) {
  const { filters = {}, which = 'train', tasks = null, quick = null, suites = {}, run } = options
  const data = { train: source, heldOut: source, filters: { ...OFF, ...filters } }
  const recipe = { name: 'test', data, evaluate: { tasks, quick, suites } } as Recipe
  const places = { hubUrl, findFile: (path: string) => join(root, path) }
  const published = {
    identify: (...args: [never, never]) => identityOfImport(...args, places),
    load: (...args: [never, never]) => loadPublished(...args, places),
    newestSplit: (source: { dataset: string; revision: string | null }) => findNewestSplit({ ...source, hubUrl }),
  }
  const named = run === undefined ? {} : { run }
  return prepareSuite({ store, loadTasks: loadTasksAndFile, published, recipe, ...named }, which)
}

async function taskIds(suite: string): Promise<string[]> {
  return (await readOrThrow<SuiteManifest>(store, suiteKeys.manifest(suite))).taskIds
}

async function refusal(promise: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error: unknown = await promise.then(
    () => null,
    (reason: unknown) => reason,
  )
  assert.ok(isLonghaulError(error), String(error))
  return error
}

test('a suite of the hub is read once and stored with tasks, rows, revision, filters and counts', async () => {
  const server = await serve()
  const source = hub({ filters: ['created>=2025-06-01'] })
  const { suite, tasks } = await prepare(source, server.url, { filters: { maxFiles: 7 } })
  assert.deepEqual([tasks, await taskIds(suite)], [2, ['owner__thing-2', 'owner__thing-3']])
  const record = await readOrThrow<ImportedSuite>(store, suiteKeys.imported(suite))
  assert.deepEqual(record.source, { kind: 'hub', dataset: DATASET, revision: REVISION, split: '2025_05' })
  assert.deepEqual(
    record.filters.map(({ filter, kept, dropped }) => [filter.kind, kept, dropped]),
    [
      ['created', 2, 1],
      ['max-files', 2, 0],
    ],
  )
  assert.match(record.files[0]?.id ?? '', /^[0-9a-f]{64}$/)
  const task: Task = await createTaskReader(store)({ suite, taskId: 'owner__thing-2' })
  assert.equal(task.goldPatch, ROWS[1]?.['patch'])
  const { row } = await readOrThrow<{ row: object }>(store, suiteKeys.row(suite, 'owner__thing-2'))
  assert.deepEqual(row, JSON.parse(JSON.stringify(plainValue(ROWS[1]))))

  const asked = server.requests.length
  assert.ok(asked > 0)
  await server[Symbol.asyncDispose]()
  // The hub is gone: the same import is in the store, another one is not.
  assert.equal((await prepare(source, server.url, { filters: { maxFiles: 7 } })).suite, suite)
  assert.equal((await refusal(prepare(hub(), server.url))).code, 'Suite.Unreachable')
})

test('a missing network is one error that says what to do', async () => {
  const { code, message } = await refusal(prepare(hub({ ids: ['a'] }), 'http://127.0.0.1:9'))
  assert.equal(code, 'Suite.Unreachable')
  assert.match(message, /nebius\/SWE-rebench-leaderboard .*127\.0\.0\.1:9.*LONGHAUL_HUB_URL.*tasks import .*kind: file/)
})

test('a held-out suite has as many tasks as the recipe evaluates, and filters do not change it', async () => {
  await using server = await serve()
  const two = await prepare(hub(), server.url, { which: 'heldOut', tasks: 2, filters: { maxLines: 1 } })
  assert.deepEqual(await taskIds(two.suite), ['owner__thing-1', 'owner__thing-2'])
  const three = await prepare(hub(), server.url, { which: 'heldOut', tasks: 3 })
  assert.equal(three.tasks, 3)
})

test('refused rows end the run with the first of them, or are left out and listed, as the recipe says', async () => {
  await using server = await serve([...ROWS, { ...ROWS[0], instance_id: 'owner__thing-4', FAIL_TO_PASS: [] }])
  const refused = await refusal(prepare(hub({ ids: ['owner__thing-1'] }), server.url))
  assert.equal(refused.code, 'Task.Invalid')
  assert.match(refused.message, /1 of 4 are not, the first at .*FAIL_TO_PASS.*refused: exclude/)
  const { suite, tasks } = await prepare(hub({ refused: 'exclude' }), server.url)
  const record = await readOrThrow<ImportedSuite>(store, suiteKeys.imported(suite))
  assert.deepEqual([tasks, record.refused[0]?.taskId], [3, 'owner__thing-4'])
})

test('a filter that needs evidence of runs asks for it before any request to the hub', async () => {
  await using server = await serve()
  const { code, message } = await refusal(prepare(hub(), server.url, { filters: { flakyTrials: 50 } }))
  assert.equal(code, 'Config.Invalid')
  assert.match(message, /deterministic>=50.*evidence.*tasks gate/)
  assert.deepEqual(server.requests, [])
  const lost = await refusal(prepare(hub({ evidence: 'none.jsonl' }), server.url, { filters: { flakyTrials: 1 } }))
  assert.equal(lost.code, 'Config.NotFound')

  const runs = [{ 't.py::test_a ': 'PASSED' }, { 't.py::test_a ': 'PASSED' }]
  await writeFile(
    join(root, 'evidence.jsonl'),
    `${JSON.stringify({ instance_id: 'owner__thing-2', goldRuns: runs })}\n`,
  )
  const source = hub({ evidence: 'evidence.jsonl' })
  const empty = await prepare(source, server.url, { filters: { flakyTrials: 3 } })
  assert.equal(empty.tasks, 0)
})

test('a published file on this machine becomes the same suite under its own name', async () => {
  await writeFile(join(root, 'rows.jsonl'), ROWS.map((row) => `${JSON.stringify(plainValue(row))}\n`).join(''))
  await writeFile(join(root, 'rows.parquet'), writeParquet({ schema: rebench.schema, rows: ROWS }))
  const part = structuredClone(PART)
  const found = []
  for (const path of ['rows.jsonl', 'rows.parquet']) {
    const { suite } = await prepare({ kind: 'file', path, ...part, filters: ['created<2025-07-01'], limit: 1 }, null)
    const { rowHash } = await createTaskReader(store)({ suite, taskId: 'owner__thing-1' })
    found.push([(await taskIds(suite)).join(), rowHash])
  }
  assert.equal(found[0]?.[0], 'owner__thing-1')
  assert.deepEqual(found[0], found[1])
  const missing = await refusal(prepare({ kind: 'file', path: 'none.parquet', ...part }, null))
  assert.equal(missing.code, 'Config.NotFound')
})

test('preparing the held-out suite refuses a quick task that it does not have, by its id', async () => {
  await using server = await serve()
  const quick = ['owner__thing-2', 'owner__thing-3', 'owner__thing-9']
  const { code, message } = await refusal(prepare(hub(), server.url, { which: 'heldOut', tasks: 2, quick }))
  assert.equal(code, 'Config.Invalid')
  assert.match(message, /evaluate\.quick to name only the 2 held-out tasks, got also owner__thing-3 and 1 more/)
  assert.equal((await prepare(hub(), server.url, { which: 'heldOut', quick: quick.slice(0, 2) })).tasks, 3)
  assert.equal((await prepare(hub(), server.url, { which: 'train', quick })).tasks, 3)
})

test('an additional suite is prepared whole by its name, and an unknown name is refused', async () => {
  await using server = await serve()
  const suites = { may: hub({ filters: ['created<2025-07-01'] }) }
  const may = await prepare(hub(), server.url, { which: 'may', suites, tasks: 1, quick: ['owner__thing-1'] })
  assert.deepEqual([may.name, await taskIds(may.suite)], ['test-may', ['owner__thing-1', 'owner__thing-2']])
  const { code, message } = await refusal(prepare(hub(), server.url, { which: 'june', suites }))
  assert.equal(code, 'Config.Invalid')
  assert.match(message, /evaluate\.suites/)
})

// The story: a run is started again a week later, or by a worker of another machine. Its file of rows has been edited meanwhile, or is not
// there. Each evaluation of a run asks for its suite again too, so an edit in the middle of a run had the same effect.
test('a run keeps the suite that has passed its gate, whatever becomes of its file', async () => {
  const path = join(root, 'edited.jsonl')
  const write = (rows: readonly Record<string, unknown>[]) =>
    writeFile(path, rows.map((row) => `${JSON.stringify(plainValue(row))}\n`).join(''))
  const source: SuiteSource = { kind: 'file', path: 'edited.jsonl', ...structuredClone(PART) }
  const of = (run: string, which = 'heldOut') => prepare(source, null, { run, which, suites: { more: source } })
  const gate = (run: string, suite: string) =>
    putPart(store, gateKeys.gated(run, suite), { suite, repeats: 1, admitted: ['owner__thing-1'], refused: [] })
  const plan = (run: string, stage: string, iteration: number, suite: string) =>
    putPart(store, runKeys.plan(run, stage, iteration), {
      schema: 'longhaul.plan/1',
      run,
      stage,
      iteration,
      suite,
      groupSize: 1,
      taskIds: ['owner__thing-1'],
    })
  await write(ROWS)
  const first = await of('evaluated')
  await gate('evaluated', first.suite)
  await plan('evaluated', 'eval-nightly', 0, first.suite)
  await plan('evaluated', 'eval-nightly.more', 0, first.suite)
  await plan('ungated', 'eval-nightly', 0, first.suite)
  await plan('trained', 'dapo-1', 1, first.suite)
  await gate('trained', first.suite)
  await putPart(store, runKeys.overlap('compared'), { train: first.suite, evaluated: [first.suite] })
  await gate('compared', first.suite)

  await write(ROWS.slice(1))
  const changed = await of('new')
  assert.notEqual(changed.suite, first.suite)
  assert.deepEqual(await of('evaluated'), first)
  assert.deepEqual(await of('evaluated', 'more'), { ...first, name: 'test-more' })
  assert.deepEqual(await of('trained', 'train'), { ...first, name: 'test-train' })
  assert.equal((await of('compared')).suite, first.suite)
  assert.equal((await of('compared', 'train')).suite, first.suite)
  // Whose tasks failed their gate may mend them and start the run again.
  assert.equal((await of('ungated')).suite, changed.suite)

  await rm(path)
  assert.deepEqual(await of('evaluated'), first)
  await assert.rejects(of('new'))
})
