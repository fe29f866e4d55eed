/** Grading a file of predictions, and a run's patches again, from the command line against a whole stack. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { resolveSuite } from '../../src/activities/grading/resolve-suite.ts'
import { readPredictions } from '../../src/adapters/predictions/predictions.ts'
import { loadTasksAndFile } from '../../src/adapters/datasets/load-tasks.ts'
import { loadRecipe } from '../../src/adapters/recipes/load-recipe.ts'
import type { VerdictRecord } from '../../src/contracts/episodes.types.ts'
import type { GradedInstance } from '../../src/contracts/grading.types.ts'
import { episodeKeys, runKeys } from '../../src/contracts/keys.ts'
import type { VerdictComparison } from '../../src/domain/statistics/compare-verdicts.ts'
import { longhaul } from '../support/command-line.ts'
import { changeEnvironment } from '../support/environment.ts'
import { makeRecord } from '../support/episode-records.ts'
import { makeVerdict } from '../support/evaluation-records.ts'
import { watchGraders } from '../support/grade-kill/grader-starts.ts'
import { layoutTasks, removeLayoutImages, writeLayoutRows } from '../support/layouts/layout-tasks.ts'
import { attachWorld, needsStack, type PipelineWorld } from '../support/pipeline-world.ts'
import type { IterationPlan, StoredRecipe } from '../../src/contracts/run-records.types.ts'

const tasks = layoutTasks({ series: process.pid, layouts: ['synthetic'], perLayout: 3 })
const taskIds = tasks.map(({ task }) => task.taskId)
const RUN = `commands-${process.pid}`
let world: PipelineWorld
let folder: string

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'longhaul-grade-'))
  await writeLayoutRows(join(folder, 'rows.jsonl'), tasks)
  if (needsStack === false) world = await attachWorld()
})

after(async () => {
  if (needsStack === false) await removeLayoutImages({ engine: world.engine, tasks })
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

/** The last line of a command with --json. */
function lastRecord(stdout: string): Record<string, unknown> {
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as Record<string, unknown>
}

test('predictions are graded with counts, intervals and the harness’s files; the repeated command runs nothing', {
  skip: needsStack,
}, async () => {
  const graders = await watchGraders(world.engine, RUN)
  const file = join(folder, 'preds.jsonl')
  const line = (index: number, model_patch: string | null) =>
    `${JSON.stringify({ instance_id: taskIds[index], model_name_or_path: 'lane/m', model_patch })}\n`
  const { goldPatch = '' } = tasks[0]?.task ?? {}
  await writeFile(
    file,
    line(0, goldPatch) + line(1, tasks[1]?.wrongPatch ?? '') + line(1, null) + line(1, tasks[1]?.wrongPatch ?? ''),
  )
  const out = join(folder, 'out')
  const words = [
    'grade',
    file,
    '--suite',
    join(folder, 'rows.jsonl'),
    '--recipe',
    'mini',
    '--run-id',
    RUN,
    '--out',
    out,
  ]

  const { exitCode, stdout, stderr } = await longhaul(...words, '--json')
  assert.equal(exitCode, 0, stderr)
  assert.match(stderr, /gives ids more than once \(1, such as .*the last patch of each counts/)
  const { counts, graded, official } = lastRecord(stdout) as Record<string, { mean?: number; interval?: object }>
  assert.deepEqual(counts, { resolved: 1, unresolved: 1, couldNotGrade: 0, empty: 0, incomplete: 1 })
  assert.equal(graded?.mean, 0.5)
  assert.ok(graded?.interval && official?.interval)
  const report = JSON.parse(await readFile(join(out, `lane__m.${RUN}.json`), 'utf8')) as Record<string, unknown>
  assert.deepEqual(
    [report['resolved_ids'], report['unresolved_ids'], report['incomplete_ids'], report['error_ids']],
    [[taskIds[0]], [taskIds[1]], [taskIds[2]], []],
  )
  const logs = join(out, 'logs/run_evaluation', RUN, 'lane__m', taskIds[0] ?? '')
  assert.equal(await readFile(join(logs, 'patch.diff'), 'utf8'), goldPatch)
  assert.match(await readFile(join(logs, 'eval.sh'), 'utf8'), /^#!\/bin\/bash\n/)
  assert.match(await readFile(join(logs, 'test_output.txt'), 'utf8'), />>>>> Start Test Output/)
  const instance = JSON.parse(await readFile(join(logs, 'report.json'), 'utf8')) as Record<
    string,
    { resolved: boolean }
  >
  assert.equal(instance[taskIds[0] ?? '']?.resolved, true)

  const again = await longhaul(...words)
  assert.equal(again.exitCode, 0, again.stderr)
  assert.match(again.stderr, /joined grade\//)
  assert.match(
    again.stdout,
    /2 predictions for rows\.jsonl: 1 resolved, 1 unresolved \(0 empty\), 0 not graded, 1 tasks without one/,
  )
  assert.match(again.stdout, /as official harnesses count {2}0\.333 ± 0\.333 {2}\(95 % interval/)
  assert.equal(graders.stop().length, 2)
  assert.match((await longhaul('report', RUN)).stdout, /1 resolved, 1 unresolved/)
})

test('regrading a run’s patches lists the changed verdict, keeps the first one and exports the patches', {
  skip: needsStack,
}, async () => {
  const { store } = world
  const run = `${RUN}-played`
  const { recipe, hash } = await loadRecipe({ name: 'mini', dirs: ['recipes'] })
  const deps = { store, loadTasks: loadTasksAndFile, loadRecipe: () => Promise.reject(new Error('not asked for')) }
  const { manifest } = await resolveSuite(deps, join(folder, 'rows.jsonl'))
  await store.putRecord<StoredRecipe>(runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash, recipe })
  const place = { run, stage: 'eval-base', iteration: 0 }
  const plan: IterationPlan = {
    schema: 'longhaul.plan/1',
    ...place,
    suite: manifest.hash,
    groupSize: 1,
    taskIds,
  }
  await store.putRecord(runKeys.plan(run, place.stage, 0), plan)
  const patches = [tasks[0]?.task.goldPatch ?? '', tasks[1]?.wrongPatch ?? '', '']
  const records = patches.map((patch, index) =>
    makeRecord({ ...place, taskId: taskIds[index] ?? '', verdict: 'unresolved', patchBytes: patch.length }),
  )
  for (const [index, record] of records.entries()) {
    await store.put(episodeKeys.patch(record.episode), Buffer.from(patches[index] ?? ''))
    await store.putRecord(episodeKeys.verdict(record.episode), makeVerdict(record, 'unresolved'))
    await store.putRecord(episodeKeys.result(record.episode), record)
  }

  const { exitCode, stdout, stderr } = await longhaul('regrade', run, '--strict', '--json')
  assert.equal(exitCode, 3, stderr)
  const { instances, changed, compared } = lastRecord(stdout) as {
    instances: GradedInstance[]
    changed: number
    compared: VerdictComparison
  }
  assert.equal(changed, 1)
  const { difference, mcnemar, flips } = compared.comparison
  assert.deepEqual([difference.mean, mcnemar?.onlyAfter, flips[0]?.taskId], [0.5, 1, taskIds[0]])
  assert.match((await longhaul('report', String(lastRecord(stdout)['run']))).stdout, /McNemar exact p/)
  assert.deepEqual(
    instances.map(({ episode, before, kind }) => [episode, before?.kind, kind]),
    [
      [records[0]?.episode, 'unresolved', 'resolved'],
      [records[1]?.episode, 'unresolved', 'unresolved'],
    ],
  )
  const first = await store.readRecord<VerdictRecord>(episodeKeys.verdict(records[0]?.episode ?? ''))
  assert.equal(first?.kind, 'unresolved')
  const beside = await store.list(`episodes/${records[0]?.episode}/grading/`)
  const verdicts = beside.filter((key) => /\/again\/[^/]+\/[0-9a-f]{16}\/verdict\.json$/.test(key))
  assert.equal(verdicts.length, 1, beside.join())
  const { suite } = (await store.readRecord<VerdictRecord>(verdicts[0] ?? '')) ?? assert.fail()
  assert.deepEqual([suite?.hash, suite?.dataset], [manifest.hash, 'rows.jsonl'])
  assert.match(suite?.revision ?? '', /^[0-9a-f]{64}$/)

  const out = join(folder, 'again.json')
  const written = await longhaul('predictions', run, '--out', out, '--model', 'mine')
  assert.equal(written.exitCode, 0, written.stderr)
  assert.deepEqual(
    (await readPredictions({ path: out })).predictions,
    taskIds.map((taskId, index) => ({ taskId, model: 'mine', patch: patches[index] ?? '' })),
  )

  // A machine without the workers' store judges the result all the same.
  const restore = changeEnvironment({ LONGHAUL_ARTIFACTS: join(folder, 'elsewhere') })
  const afar = await longhaul('regrade', run, '--strict', '--json').finally(restore)
  assert.equal(afar.exitCode, 3, afar.stderr)
})

test('each bad request gives one error, exits with 1 and starts nothing', { skip: needsStack }, async () => {
  const rows = join(folder, 'rows.jsonl')
  const strange = join(folder, 'strange.json')
  await writeFile(strange, JSON.stringify([{ instance_id: 'x__y-1', model_name_or_path: 'm', model_patch: 'p' }]))
  for (const [words, message] of [
    [['grade', strange, '--suite', rows], /it has no "x__y-1"/],
    [['grade', 'nowhere.json', '--suite', rows], /Config\.NotFound.*predictions/],
    [['grade', 'gold', '--suite', 'nowhere.jsonl'], /Config\.NotFound.*task rows/],
    [['grade', 'gold', '--suite', 'dmeo:heldOut'], /did you mean demo/],
    [['grade', 'gold', '--suite', rows, '--run', 'a', '--run-id', 'b'], /one name, got --run a and --run-id b/],
    [['regrade', 'no-such-run'], /No run called "no-such-run" is in the artifact store/],
    [['predictions', 'no-such-run', '--out', join(folder, 'x.json')], /no run "no-such-run" is in/],
  ] as const) {
    const { exitCode, stdout, stderr } = await longhaul(...words)
    assert.deepEqual([exitCode, stdout], [1, ''], words.join(' '))
    assert.match(stderr, message, words.join(' '))
  }
})
