import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type Attempt, makeFacts } from '../../../test/support/evaluation-records.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { episodeId, episodeKeys, policyKeys, runKeys, suiteKeys } from '../../contracts/keys.ts'
import { readOrThrow, createTaskReader } from '../runtime/stored-records.ts'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { recomputeReport } from './recompute-report.ts'
import { summarizeEvaluation } from './derive-evaluation.ts'
import { newestDurations, writeReport } from './write-report.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const RUN = 'nightly-2026-11-21-a'
const POLICY = 'v000000-aaaaaaaa'
let root: string
let store: ArtifactStore

/** Three attempts at each task; a lost one was replaced under the next index, or not. */
const ATTEMPTS: Record<string, Attempt[]> = {
  a: [1, 1, 0],
  b: [0, 'infra', 0, 1],
  c: ['ungraded', 1, 'infra', 'infra', 1],
  d: ['infra', 'infra', 'infra', 'infra', 'infra'],
}

/** 3 machines of 24 an hour: 0.02 a second. */
const PRICES = {
  currency: 'EUR',
  perMillionTokens: { input: 100, cachedInput: 10, output: 500 },
  machines: [{ name: 'host', count: 3, perHour: 24 }],
}

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'longhaul-recompute-'))
  store = createDirectoryStore({ root })
  const recipe = { ...makeTrainingRecipe(), data: { gate: { repeats: 1 } }, evaluate: { prices: PRICES } }
  recipe.model.cutoff = '2025-01-01'
  await putPart(store, runKeys.claim(RUN), { schema: 'longhaul.run/1', run: RUN, kind: 'eval' })
  await putPart(store, runKeys.recipe(RUN), { schema: 'longhaul.recipe/1', hash: 'ab', recipe })
  await putPart(store, policyKeys.ref(POLICY), { version: POLICY, globalStep: 0 })
  const taskIds = Object.keys(ATTEMPTS)
  for (const taskId of taskIds) {
    const createdAt = taskId === 'a' ? '2024-03-01T00:00:00Z' : taskId === 'b' ? '2025-06-01T00:00:00Z' : null
    await putPart(store, suiteKeys.task('suite', taskId), { taskId, repo: 'org/repo', rowHash: taskId, createdAt })
  }
  const plan = {
    schema: 'longhaul.plan/1',
    run: RUN,
    stage: 'eval-nightly',
    iteration: 0,
    suite: 'suite',
    groupSize: 3,
  }
  await putPart(store, runKeys.plan(RUN, 'eval-nightly', 0), { ...plan, taskIds })
  for (const [taskId, attempts] of Object.entries(ATTEMPTS)) {
    for (const [index, attempt] of attempts.entries()) await storeEpisode(taskId, index, attempt)
  }
})

after(() => rm(root, { recursive: true, force: true }))

async function storeEpisode(taskId: string, index: number, attempt: Attempt): Promise<void> {
  const identity = { run: RUN, stage: 'eval-nightly', iteration: 0, taskId, index }
  const episode = episodeId(identity)
  const usage = { promptTokens: 1000, cachedTokens: 600, completionTokens: 60 }
  const { record, verdict } = makeFacts(attempt, { ...identity, policy: POLICY, turns: 2 + index, usage })
  await putPart(store, episodeKeys.result(episode), record)
  await putPart(store, episodeKeys.start(episode), { episode, startedAtMs: 1000 })
  await putPart(store, episodeKeys.observation(episode, record.turns - 1), {
    episode,
    observedAtMs: 3500 + 100 * index,
  })
  if (verdict !== null) await putPart(store, episodeKeys.verdict(episode), verdict)
}

async function finish(): Promise<{ json: Buffer; html: Buffer; evaluation: Buffer }> {
  const tasks = createTaskReader(store)
  const policy = {
    version: POLICY,
    uri: '',
    manifestSha256: '',
    globalStep: 0,
    checkpointUri: null,
    checkpointSha256: null,
  }
  const input = { run: RUN, name: 'nightly', stage: 'eval-nightly', policy, suite: 'suite' }
  const { evaluation } = await summarizeEvaluation({ store, tasks }, input)
  const { json, html } = await writeReport({ store }, { run: RUN, durations: { total: 12.5 } })
  const read = (key: string): Promise<Buffer> => readFile(store.path(key))
  return { json: await read(json.key), html: await read(html.key), evaluation: await read(evaluation.key) }
}

test('the report has the cost of attempts: tokens, shared machines, and lost attempts separately', async () => {
  const { html } = await finish()
  const { cost, totals, promptTokens, tasks } = await readOrThrow<EvaluationRecord>(
    store,
    runKeys.evaluation(RUN, 'nightly'),
  )
  // Tokens: (400 × 100 + 600 × 10 + 60 × 500) / 1e6 = 0.076 for each of 17 attempts, 8 of them graded. Machines: the longest
  // ran from 1.0 to 3.9 s, 2.9 s × 0.02 = 0.058 for all together.
  assert.equal(cost?.unknown, 0)
  assert.ok(Math.abs((cost?.graded ?? 0) + (cost?.lost ?? 0) - (17 * 0.076 + 0.058)) < 1e-12, JSON.stringify(cost))
  // Of the 17 attempts' time: 2.5 s + 0.1 for each index.
  const seconds = (indices: number[]): number => indices.reduce((sum, index) => sum + 2.5 + 0.1 * index, 0)
  const all = seconds([0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 1, 2, 3, 4])
  const graded = seconds([0, 1, 2, 0, 2, 3, 1, 4])
  assert.ok(Math.abs((cost?.graded ?? 0) - (8 * 0.076 + (0.058 * graded) / all)) < 1e-12)
  assert.deepEqual([totals.promptTokens, totals.cachedTokens, promptTokens?.mean], [8000, 4800, 1000])
  assert.equal(tasks[2]?.cost?.length, 2)
  assert.match(html.toString(), /<h2>Cost<\/h2>/)
})

test('the report counts k attempts a task with lost attempts, replacements and both denominators', async () => {
  await finish()
  const record = await readOrThrow<EvaluationRecord>(store, runKeys.evaluation(RUN, 'nightly'))
  assert.deepEqual(
    record.tasks.map(({ taskId, outcomes, lost, turns }) => ({ taskId, outcomes, lost, turns })),
    [
      { taskId: 'a', outcomes: [1, 1, 0], lost: 0, turns: [2, 3, 4] },
      { taskId: 'b', outcomes: [0, 0, 1], lost: 0, turns: [2, 4, 5] },
      { taskId: 'c', outcomes: [1, 1], lost: 1, turns: [3, 6] },
      { taskId: 'd', outcomes: [], lost: 3, turns: [] },
    ],
  )
  // Over graded attempts: (2/3 + 1/3 + 1) / 3; officially d is a task with 0 of 5, and those that were played again count too:
  // (2/3 + 1/4 + 2/5 + 0) / 4.
  assert.ok(Math.abs(record.score.passAt1 - 2 / 3) < 1e-12)
  assert.ok(Math.abs(record.official.passAt1 - 79 / 240) < 1e-12)
  assert.deepEqual([record.score.tasks, record.official.tasks, record.attempts], [3, 4, 3])
  // c has two graded attempts: runs cannot be compared, pass@3 is undefined, pass@2 is not.
  assert.equal(record.semOver, 'tasks')
  assert.deepEqual(
    record.passAtK.map(({ any }) => any === null),
    [false, false, true],
  )
  assert.deepEqual([record.infra, record.couldNotGrade], [8, 1])
  assert.deepEqual(record.verdicts, { 'could-not-grade': 1, none: 8, resolved: 5, unresolved: 3 })
  assert.deepEqual(record.dispositions, { infra: 8, submitted: 9 })
  assert.equal(record.totals.gradeSeconds, 9 * 0.5)
  // First prompt at 1 s, last observation at 3.5 s for index 0.
  assert.equal(record.tasks[0]?.wallSeconds[0], 2.5)
})

test('a report whose files were deleted is made again with the same bytes', async () => {
  const made = await finish()
  await rm(store.path(`runs/${RUN}/report`), { recursive: true })
  await rm(store.path(`runs/${RUN}/evaluations`), { recursive: true })
  const files = await recomputeReport(store, RUN)
  assert.deepEqual(
    files.map(({ state }) => state),
    ['written', 'written', 'written'],
  )
  const again = await Promise.all(files.map(({ key }) => readFile(store.path(key))))
  assert.deepEqual(again, [made.evaluation, made.json, made.html])
  assert.deepEqual(
    (await recomputeReport(store, RUN)).map(({ state }) => state),
    ['same', 'same', 'same'],
  )
})

test('a report that contradicts its records is detected and not changed', async () => {
  await finish()
  const path = store.path(runKeys.report(RUN, 'report.json'))
  const honest = await readFile(path)
  const forged = Buffer.from(honest.toString().replace('"passAt1"', '"passAt2"'))
  await rm(path)
  await writeFile(path, forged)
  const files = await recomputeReport(store, RUN)
  assert.deepEqual(
    files.filter(({ state }) => state === 'differs').map(({ key }) => key),
    [runKeys.report(RUN, 'report.json')],
  )
  assert.deepEqual(await readFile(path), forged)
  await rm(path)
  await writeFile(path, honest)
})

test('a continued run is reported under the next number and recomputed under that number', async () => {
  await finish()
  await writeReport({ store }, { run: RUN, durations: { total: 20 } })
  assert.deepEqual(await newestDurations(store, RUN), { number: 2, durations: { total: 20 } })
  const files = await recomputeReport(store, RUN)
  assert.deepEqual(
    files.map(({ key, state }) => [key.split('/').at(-1), state]),
    [
      ['nightly.json', 'same'],
      ['report-2.json', 'same'],
      ['report-2.html', 'same'],
    ],
  )
})
