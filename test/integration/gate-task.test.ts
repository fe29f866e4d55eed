/** What a gate finds, on real containers: each kind of bad task once, and nothing graded that was graded before. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { writeGateReport } from '../../src/activities/gate/close-gate.ts'
import { type GateDependencies, gateTask, mayExclude, recordUngated } from '../../src/activities/gate/gate-task.ts'
import { createImageProvider } from '../../src/activities/gate/task-images.ts'
import { createEngineInspector, createImageVerifier } from '../../src/activities/gate/verify-image.ts'
import { createSuiteReader, createTaskReader, readOrThrow } from '../../src/activities/runtime/stored-records.ts'
import { createDirectoryStore } from '../../src/adapters/artifacts/directory-store.ts'
import { importSuite } from '../../src/adapters/datasets/import-suite.ts'
import { normalizeRow } from '../../src/adapters/datasets/normalize-row.ts'
import { readEvidence } from '../../src/adapters/datasets/published-suite.ts'
import { synthesizeTask } from '../../src/adapters/datasets/synthetic/synthesize.ts'
import { connectEngine, type Engine } from '../../src/adapters/docker/engine/engine.ts'
import { createDockerSandboxHost, type DockerSandboxHost } from '../../src/adapters/docker/sandbox/sandbox-host.ts'
import { loadRecipe } from '../../src/adapters/recipes/load-recipe.ts'
import { isLonghaulError } from '../../src/contracts/errors.ts'
import type { GateRecord, GateReport, TaskGate } from '../../src/contracts/gates.types.ts'
import { gateKeys, runKeys, suiteKeys } from '../../src/contracts/keys.ts'
import type { Recipe } from '../../src/contracts/recipe.types.ts'
import type { Task } from '../../src/contracts/tasks.types.ts'
import { readFilter } from '../../src/domain/gates/filter-words.ts'
import { gateTables, formatGate } from '../../src/report/suite-table.ts'
import { renderTable } from '../../src/report/text-report.ts'
import { stackPaths } from '../../src/stack/paths.ts'
import { createGateTask, OUTAGE } from '../support/gates/gate-tasks.ts'
import { buildLayoutImages, removeLayoutImages } from '../support/layouts/layout-tasks.ts'
import { startTestRegistry, type TestRegistry } from '../support/test-registry.ts'
import { codeOf, never } from './sandbox-fixture.ts'
import { putPart } from '../support/record-examples.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-gate-'))
const store = createDirectoryStore({ root: join(root, 'store') })
const { cacheDir } = stackPaths()
const series = process.pid
const flaky = createGateTask('flaky', { series, number: 1 })
const hidden = createGateTask('hidden-name', { series, number: 2 })
const failing = createGateTask('gold-fails', { series, number: 3 })
const broken = createGateTask('broken-gold', { series, number: 4 })
const tasks = [flaky, hidden, failing, broken]
/** Indexes of a function at level 1, a field at level 2, a keyword with two stale files. */
const HALF_RENAMED = [0, 10, 18]
let engine: Engine
let host: DockerSandboxHost
let registry: TestRegistry
let recipe: Recipe
/** Grading containers that were really run, by what was asked for. */
let graded: string[] = []

before(async () => {
  engine = await connectEngine()
  host = createDockerSandboxHost({ engine, hostId: 'test-host', hostQueue: 'q' })
  registry = await startTestRegistry()
  ;({ recipe } = await loadRecipe({ name: 'mini', dirs: ['recipes'] }))
  await buildLayoutImages({ engine, cacheDir: join(cacheDir, 'images'), tasks })
})

after(async () => {
  host.dispose()
  await registry.close()
  await removeLayoutImages({ engine, tasks })
  rmSync(root, { recursive: true })
})

interface GateOptions {
  repeats?: number
  refused?: 'exclude' | 'fail'
  /** The grading during which the service is away. */
  outageAt?: string
}

/** One run's gate of a suite of one task. */
async function gate(run: string, task: Task, options: GateOptions = {}): Promise<TaskGate> {
  const deps = dependencies(task, options)
  const step = await gateTask(deps, { run, suite: task.taskId, index: 0 }, never)
  assert.equal(step.done, true)
  return readOrThrow<TaskGate>(store, gateKeys.task(run, task.taskId, task.taskId))
}

function dependencies(task: Task, { repeats = 1, refused = 'exclude', outageAt = '' }: GateOptions): GateDependencies {
  const ensureImage = createImageProvider({ engine, cacheDir, log: () => undefined })
  return {
    store,
    recipe: { ...recipe, data: { ...recipe.data, gate: { repeats, refused, width: null } } },
    sandbox: {
      ...host,
      grade(input, signal) {
        const what = input.episode.split('/').at(-1) ?? ''
        graded.push(what)
        const evalScript = what === outageAt ? `touch ${OUTAGE}\n${input.evalScript}` : input.evalScript
        return host.grade({ ...input, evalScript }, signal)
      },
    },
    ensureImage,
    verifyImage: createImageVerifier({
      inspector: createEngineInspector({ engine, keeper: host.context.keeper, ensureImage }),
      store,
    }),
    tasks: async () => task,
    suites: async () => ({
      hash: task.taskId,
      name: 'one',
      source: { kind: 'rows', path: '', limit: null },
      taskIds: [task.taskId],
    }),
    owner: 'test',
    now: Date.now,
  }
}

async function gradedBy<T>(work: () => Promise<T>): Promise<{ result: T; made: string[] }> {
  graded = []
  const result = await work()
  return { result, made: graded }
}

test('more repeats of a flaky task grade only the missing ones and name the test that flips', async () => {
  const first = await gradedBy(() => gate('one', flaky.task))
  assert.deepEqual([first.result.outcome, first.made], ['passed', ['gold-1', 'empty-1']])

  const second = await gradedBy(() => gate('two', flaky.task, { repeats: 2, outageAt: 'gold-2' }))
  assert.deepEqual(second.made, ['gold-2', 'empty-2'])
  assert.equal(second.result.outcome, 'flaky')
  assert.deepEqual(second.result.flips, [
    { check: 'gold', test: 'tests/test_prices.py::test_service', statuses: { PASSED: 1, FAILED: 1 } },
  ])
  assert.deepEqual(second.result.gradings, { gold: 2, empty: 2, made: 2 })

  const third = await gradedBy(() => gate('three', flaky.task, { repeats: 2 }))
  assert.deepEqual([third.result.outcome, third.made], ['flaky', []], 'another repeat never cancels a failure')
})

test('a test that flips without the gold patch makes the task flaky too and is named with its check', async () => {
  const other = { ...flaky.task, rowHash: 'flips when empty' }
  const { result, made } = await gradedBy(() => gate('coin', other, { repeats: 2, outageAt: 'empty-2' }))
  assert.deepEqual(made, ['gold-1', 'empty-1', 'gold-2', 'empty-2'])
  assert.equal(result.outcome, 'flaky')
  const service = 'tests/test_prices.py::test_service'
  assert.equal(result.reason, `listed tests ended differently without the gold patch: ${service}`)
  assert.deepEqual(result.flips, [{ check: 'empty', test: service, statuses: { PASSED: 1, FAILED: 1 } }])
  // The tests of the data set were laid over the unrepaired repository: those that should begin to pass ran, and failed.
  const empty = await readOrThrow<GateRecord>(store, gateKeys.grading(other.taskId, result.identity ?? '', 'empty', 1))
  assert.deepEqual(empty.notPassed, Object.fromEntries(other.failToPass.map((name) => [name, 'FAILED'])))
})

test('tasks of the family half-renamed pass the gate, and the empty patch fails as the row says', async () => {
  // One of each level, so one with two stale files, and of each kind of name.
  for (const index of HALF_RENAMED) {
    const { row } = synthesizeTask({ family: 'half-renamed', seed: 1, split: 'eval', index })
    const task = normalizeRow(row)
    const { outcome, audits, reason, identity } = await gate('half-renamed', task)
    assert.deepEqual([outcome, reason, audits], ['passed', null, { agrees: 1 }], row.instance_id)
    const empty = await readOrThrow<GateRecord>(store, gateKeys.grading(task.taskId, identity ?? '', 'empty', 1))
    assert.deepEqual(Object.keys(empty.notPassed).toSorted(), task.failToPass.toSorted())
  }
})

test('gradings report how long they took and how much memory they used', async () => {
  const { gradeMs, peakMemoryBytes } = await gate('one', flaky.task)
  assert.ok(gradeMs !== null && gradeMs.p50 > 0 && gradeMs.max >= gradeMs.p50)
  // The test runner alone takes several MiB; the container may not have more than half a GiB.
  assert.ok(peakMemoryBytes !== null && peakMemoryBytes > 4 * 1024 ** 2 && peakMemoryBytes <= 512 * 1024 ** 2)
})

test('a changed row, changed limits or a changed image are gated again', async () => {
  const changed = { ...flaky.task, rowHash: 'another' }
  const { made } = await gradedBy(() => gate('changed', changed, { refused: 'fail', outageAt: 'gold-1' }))
  assert.deepEqual(made, ['gold-1'], 'the first failure ends the gate where one is enough')
})

test('a gold patch that does not repair is reported with the tests and exceptions of its log', async () => {
  const found = await gate('wrong', failing.task)
  assert.equal(found.outcome, 'gold-fails')
  assert.deepEqual(found.failing, ['tests/test_prices.py::test_total'])
  assert.deepEqual(found.exceptions, { AssertionError: 1 })
})

test('a gold patch that does not apply is tried once and is not reported as a test failure', async () => {
  const { result, made } = await gradedBy(() => gate('broken', broken.task, { repeats: 3 }))
  assert.deepEqual(made, ['gold-1'])
  assert.equal(result.outcome, 'could-not-gate')
  assert.match(result.reason ?? '', /gold patch could not be graded in 1 of 1 \(patch-rejected\)/)
})

for (const [what, code, pattern, change] of [
  [
    'an image that no registry has',
    'Sandbox.ImageMissing',
    /registry does not have/,
    () => ({ image: `${registry.reference('gone')}:1` }),
  ],
  [
    'an image without the task’s commit',
    'Sandbox.ImageUnsuitable',
    /does not have the task’s commit/,
    () => ({ baseCommit: 'a'.repeat(40) }),
  ],
  [
    'an image whose repository lies elsewhere',
    'Sandbox.ImageUnsuitable',
    /no repository of its own/,
    () => ({ repoDir: '/opt' }),
  ],
  ['an image that holds no programs', 'Sandbox.ImageUnsuitable', /could not be started/, publishBare],
] as const) {
  test(`${what}: it is found before any grading, and only this task has no gate`, async () => {
    const task: Task = { ...flaky.task, taskId: `bad-${code}-${what.length}`, ...(await change()) }
    const deps = dependencies(task, {})
    const input = { run: 'bad', suite: task.taskId, index: 0 }
    const { result: error, made } = await gradedBy(async () =>
      gateTask(deps, input, never).catch((thrown: unknown) => thrown),
    )
    assert.deepEqual([codeOf(error), made], [code, []])
    assert.ok(isLonghaulError(error) && mayExclude(deps.recipe, error))
    assert.equal(
      mayExclude(dependencies(task, { refused: 'fail' }).recipe, error),
      false,
      'a run that requires every task ends',
    )
    await recordUngated(deps, input, error)
    const found = await readOrThrow<TaskGate>(store, gateKeys.task('bad', task.taskId, task.taskId))
    assert.deepEqual([found.outcome, found.failure], ['could-not-gate', code])
    assert.match(found.reason ?? '', pattern)
  })
}

/** One file and nothing else. */
async function publishBare(): Promise<Partial<Task>> {
  const { image } = await registry.publish({ name: 'bare', tag: '1', text: 'one' })
  return { image }
}

test('a gate yields the report, the evidence and the filters for the curated suite', async () => {
  const rows = join(root, 'rows.jsonl')
  const chosen = [flaky, hidden, failing]
  writeFileSync(rows, chosen.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
  const suite = 'curation'
  const taskIds = chosen.map(({ task }) => task.taskId)
  await putPart(store, suiteKeys.manifest(suite), {
    hash: suite,
    name: 'shop',
    source: { kind: 'rows', path: rows, limit: null },
    taskIds,
  })
  await putPart(store, runKeys.recipe('curate'), {
    schema: 'longhaul.recipe/1',
    hash: 'test',
    recipe: { ...recipe, data: { ...recipe.data, gate: { repeats: 2, refused: 'exclude' } } },
  })
  for (const { task } of chosen) await putPart(store, suiteKeys.task(suite, task.taskId), task)
  for (const [index, { task }] of chosen.entries()) {
    const deps = {
      ...dependencies(task, { repeats: 2 }),
      tasks: createTaskReader(store),
      suites: createSuiteReader(store),
    }
    await gateTask(deps, { run: 'curate', suite, index }, never)
  }
  const written = await writeGateReport(store, { run: 'curate', suite })
  assert.deepEqual(written.counts, {
    passed: 1,
    'gold-fails': 1,
    'empty-resolves': 0,
    flaky: 1,
    'not-auditable': 0,
    'could-not-gate': 0,
  })

  const report = await readOrThrow<GateReport>(store, written.report.key)
  const text = [...gateTables(report).map(renderTable), formatGate(report)].join('\n')
  assert.match(text, /second_cheapest/)
  assert.match(text, /tests\/test_prices\.py::test_service +PASSED × 1, FAILED × 1/)
  assert.match(text, /data set {2}rows\.jsonl/)
  assert.match(text, /1 of 3 tasks of shop passed \(gold × 2, empty × 2\): 1 flaky, 1 gold-fails/)

  const evidence = join(root, 'evidence.jsonl')
  writeFileSync(evidence, await store.get(written.evidence))
  const { suite: curated } = await importSuite({
    source: { kind: 'file', path: rows },
    filters: ['hidden-names', 'deterministic>=2'].map(readFilter),
    evidence: await readEvidence(evidence),
  })
  assert.deepEqual(
    curated.filters.map(({ kept, dropped, lacking }) => [kept, dropped, lacking]),
    // Hidden names drop one; of the others one is flaky, and one has no run in which its gold patch resolved.
    [
      [2, 1, 0],
      [0, 1, 1],
    ],
  )
})
