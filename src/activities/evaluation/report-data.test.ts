import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { rebench } from '../../../test/support/datasets/published-rows.ts'
import { makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { makeEvaluatedRun } from '../../../test/support/evaluated-run.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { readEvaluationArgument } from '../../cli/arguments/evaluation-argument.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { EvaluationDocument } from '../../contracts/evaluations.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { openPages } from '../../platform/packed-pages.ts'
import { readEvaluation } from './read-evaluation.ts'
import { gatherReportData, readEvaluations } from './report-data.ts'
import { readRunLine } from '../../viewer/read-run.ts'
import { putPart } from '../../../test/support/record-examples.ts'

let root: string
let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ root, store, close } = await useOwnStore())
})

after(() => close())

test('with quick tasks every held-out point of the curve covers only those, and the score covers all', async () => {
  const rows = [1, 2, 3, 4].map((index) => ({ ...rebench.row(`owner__thing-${index}`), created_at: null }))
  const quick = ['owner__thing-1', 'owner__thing-4']
  const attempts: (0 | 1)[][] = [[1], [1], [1], [0]]
  await makeEvaluatedRun({ store, root, run: 'quick', rows, attempts, cutoff: null, quick })
  const { curve, evaluations } = await gatherReportData(store, { run: 'quick', durations: {} })
  assert.deepEqual(
    curve.map(({ mean, tasks }) => [mean, tasks]),
    [[0.5, 2]],
  )
  assert.deepEqual([evaluations[0]?.score.passAt1, evaluations[0]?.score.tasks], [0.75, 4])
})

test('stages, and older policies of a night, stand in the order of their training, whatever their names', async () => {
  const policies: Record<string, Record<string, string>> = {
    staged: {
      base: 'v000000-aaaaaaaa',
      rft: 'v000010-aaaaaaaa',
      'warm-up': 'v000040-bbbbbbbb',
      'long-0004': 'v000060-cccccccc',
      long: 'v000090-cccccccc',
      'long.may': 'v000090-cccccccc',
      rl: 'v000120-dddddddd',
    },
    kept: {
      'nights-v000012-bbbbbbbb': 'v000012-bbbbbbbb',
      'nights-v000040-a': 'v000040-a',
      nights: 'v000050-cccccccc',
    },
  }
  const tasks = [{ taskId: 'a', attempts: [1 as const] }]
  for (const [run, evaluations] of Object.entries(policies)) {
    await putPart(store, runKeys.claim(run), { run, kind: 'train', recipe: 'r', startedAt: '2026-11-20T10:00:00.000Z' })
    for (const [name, policy] of Object.entries(evaluations))
      await putPart(store, runKeys.evaluation(run, name), makeEvaluation({ run, name, policy, tasks }))
    const found = await readEvaluations(store, run)
    assert.deepEqual(
      found.map(({ name }) => name),
      Object.keys(evaluations),
    )
  }
  // A run by its name alone is its newest policy, in a comparison and in the list of runs.
  const own = await readEvaluationArgument(async () => store, 'kept')
  assert.equal(own.name, 'nights')
  assert.equal((await readRunLine(store, 'kept')).score?.name, 'nights')
})

test('additional suites appear in the scores only, without pairs across suites or points on the curve', async () => {
  const run = 'further'
  const rows = [1, 2].map(
    (index): Record<string, unknown> => ({ ...rebench.row(`owner__thing-${index}`), created_at: null }),
  )
  await makeEvaluatedRun({ store, root, run, rows, attempts: [[1], [0]], cutoff: null })
  // The same ids in another suite, so that only the suite tells them apart.
  const tasks = rows.map((row) => ({ taskId: String(row['instance_id']), attempts: [1 as const] }))
  for (const name of ['nightly.may', 'rl.may', 'rl']) {
    const suite = name === 'rl' ? 'another' : 'may'
    await putPart(store, runKeys.evaluation(run, name), { ...makeEvaluation({ run, name, tasks }), suite })
  }
  const { evaluations, paired, curve } = await gatherReportData(store, { run, durations: {} })
  assert.deepEqual(
    evaluations.map(({ name }) => name),
    ['nightly', 'nightly.may', 'rl', 'rl.may'],
  )
  assert.deepEqual(
    paired.map(({ before, after }) => [before, after]),
    [['nightly.may', 'rl.may']],
  )
  assert.deepEqual(curve.map(({ label }) => label).toSorted(), ['nightly', 'rl'])
  assert.equal((await readEvaluationArgument(() => Promise.resolve(store), run)).name, 'rl')
  const read = (name?: string): Promise<EvaluationDocument> =>
    openPages((from) => readEvaluation(store, { run, ...(name === undefined ? {} : { name }), from }))
  const last = await read()
  assert.deepEqual([last.evaluation.name, last.further.map(({ name }) => name)], ['rl', ['rl.may']])
  assert.deepEqual(
    (await read('nightly')).further.map(({ name }) => name),
    ['nightly.may'],
  )
  assert.deepEqual(last.evaluation, evaluations[2])
})

test('an invalid evaluation name lists the existing ones and never becomes a key', async () => {
  const codeOf = (run: string, name?: string): Promise<string> =>
    readEvaluation(store, { run, ...(name === undefined ? {} : { name }) }).then(
      () => 'read',
      (error: unknown) => (isLonghaulError(error) ? `${error.code}: ${error.message}` : String(error)),
    )
  assert.match(await codeOf('further', 'nope'), /^Config\.NotFound: .*one of nightly, nightly\.may/)
  assert.match(await codeOf('absent'), /^Config\.NotFound: .*no evaluation of it/)
  for (const run of ['../further', 'a/b', '', 'further/../quick']) assert.match(await codeOf(run), /^Config\.Invalid/)
})
