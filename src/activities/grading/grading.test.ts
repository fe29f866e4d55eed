/** What a grading run decides without a container: which patches, under which name and keys, and what it counts. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { makeVerdict } from '../../../test/support/evaluation-records.ts'
import { createDirectoryStore } from '../../adapters/artifacts/directory-store.ts'
import { keepLog } from '../../adapters/artifacts/stored-log.ts'
import { loadTasks, loadTasksAndFile } from '../../adapters/datasets/load-tasks.ts'
import { synthesizeSuite } from '../../adapters/datasets/synthetic/synthesize.ts'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord, VerdictRecord } from '../../contracts/episodes.types.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { GradingPlan, GradingRecord, PredictionSet } from '../../contracts/grading.types.ts'
import { episodeId, episodeKeys, gradingKeys, predictionKeys } from '../../contracts/keys.ts'
import type { Task } from '../../contracts/tasks.types.ts'
import { createSuiteReader, createTaskReader, readOrThrow } from '../runtime/stored-records.ts'
import { renderGrading } from '../../cli/output/show-report.ts'
import { closeGrading, compareGradings } from './close-grading.ts'
import { gradePatch, type GradePatchDependencies } from './grade-patch.ts'
import { writeOfficialFiles } from './official-files.ts'
import { gradeSubmission, recordUngraded } from './grade-submission.ts'
import { openGrading } from './open-grading.ts'
import { resolveSuite } from './resolve-suite.ts'
import { createPlanReader, identityOf, recordUngradedPatch } from './stored-plan.ts'
import { storePredictions } from './store-predictions.ts'

const root = mkdtempSync(join(tmpdir(), 'longhaul-grading-'))
let store: ArtifactStore
let rows: string
let tasks: Task[]

before(async () => {
  store = createDirectoryStore({ root: join(root, 'store') })
  rows = join(root, 'rows.jsonl')
  const suite = synthesizeSuite({ seed: 5, split: 'eval', count: 5, offset: 0 })
  writeFileSync(rows, suite.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
  tasks = await loadTasks({ kind: 'rows', path: rows, limit: null })
})

after(() => rmSync(root, { recursive: true }))

const deps = () => ({
  store,
  loadTasks: loadTasksAndFile,
  loadRecipe: (input: { name: string }) => loadRecipe({ ...input, dirs: ['recipes'] }),
  tasks: createTaskReader(store),
  suites: createSuiteReader(store),
})

const ids = (): string[] => tasks.map(({ taskId }) => taskId)
const at = (index: number): string => ids()[index] ?? ''

function predictions(name: string, entries: [string, string][]): string {
  const path = join(root, `${name}.json`)
  const list = entries.map(([instance_id, model_patch]) => ({
    instance_id,
    model_patch,
    model_name_or_path: 'lane/m',
  }))
  writeFileSync(path, JSON.stringify(list))
  return path
}

const request = (run: string, file: string) => ({
  predictions: file,
  suite: rows,
  run,
  recipe: 'mini',
  workflowId: `grade/${run}`,
  firstExecutionRunId: run,
  date: '2026-01-01',
})

const fails = (code: string, message: RegExp) => (error: unknown) => {
  assert.ok(isLonghaulError(error), String(error))
  assert.equal(error.code, code)
  assert.match(error.message, message)
  return true
}

test('a suite is named by a file of rows, a hash or a recipe, and anything else is refused', async () => {
  const { manifest, recipe } = await resolveSuite(deps(), rows)
  assert.deepEqual([manifest.taskIds, recipe], [ids(), null])
  assert.equal((await resolveSuite(deps(), manifest.hash)).manifest.hash, manifest.hash)
  const named = await resolveSuite(deps(), 'mini:heldOut')
  assert.deepEqual([named.manifest.name, named.recipe], ['mini-held-out', 'mini'])
  await assert.rejects(resolveSuite(deps(), 'f'.repeat(64)), fails('Config.NotFound', /No suite with the hash/))
  await assert.rejects(resolveSuite(deps(), 'what ever'), fails('Config.Invalid', /RECIPE:heldOut.*"what ever"/))
})

test('refuses unknown task ids with their names and count before it stores anything', async () => {
  const { manifest } = await resolveSuite(deps(), rows)
  const strangers = Array.from({ length: 7 }, (_, index): [string, string] => [`x__y-${index}`, 'p'])
  const file = predictions('strangers', [[at(0), 'p'], ...strangers])
  await assert.rejects(
    storePredictions({ store, predictions: file, suite: manifest }),
    fails('Config.Invalid', /it has no "x__y-0".* and 2 more.*unknown=7/),
  )
})

test('stores patches once by content, records invalid text and oversize as failures, and takes null as empty', async () => {
  const { manifest } = await resolveSuite(deps(), rows)
  const file = predictions('faults', [
    [at(0), 'same'],
    [at(1), 'same'],
    [at(2), 'half \ud800'],
    [at(3), 'x'.repeat(5_000_001)],
    [at(4), ''],
  ])
  const set = await storePredictions({ store, predictions: file, suite: manifest })
  assert.deepEqual(
    set.predictions.map(({ patch, fault }) => [patch?.bytes ?? null, fault]),
    [
      [4, null],
      [4, null],
      [null, 'not-unicode'],
      [null, 'too-large'],
      [null, null],
    ],
  )
  assert.equal(set.predictions[0]?.patch?.key, set.predictions[1]?.patch?.key)
  assert.deepEqual(await readOrThrow<PredictionSet>(store, predictionKeys.set(set.hash)), set)
  assert.deepEqual(await storePredictions({ store, predictions: set.hash, suite: manifest }), set)
})

test('the word gold stands for every task with its own gold patch', async () => {
  const { manifest } = await resolveSuite(deps(), rows)
  const set = await storePredictions({ store, predictions: 'gold', suite: manifest })
  assert.equal(set.format, 'gold')
  const first = set.predictions[0]
  assert.deepEqual([first?.taskId, first?.model], [at(0), 'gold'])
  assert.equal(Buffer.from(await store.get(first?.patch ?? assert.fail())).toString(), tasks[0]?.goldPatch)
})

test('a repeated request finds its run, and a name with other patches is refused', async () => {
  const one = predictions('one', [[at(0), 'a']])
  const opened = await openGrading(deps(), request('mine', one))
  assert.deepEqual([opened.run, opened.patches], ['mine', 1])
  assert.deepEqual(await openGrading(deps(), { ...request('mine', one), firstExecutionRunId: 'again' }), opened)
  const other = predictions('other', [[at(0), 'b']])
  await assert.rejects(openGrading(deps(), request('mine', other)), fails('Run.RecipeConflict', /Run mine exists/))
  await assert.rejects(
    openGrading(deps(), { workflowId: 'w', firstExecutionRunId: 'r', date: '2026-01-01' }),
    fails('Config.Invalid', /predictions and suite, or regrade/),
  )
  await assert.rejects(
    openGrading(deps(), { regrade: 'no-such-run', workflowId: 'w', firstExecutionRunId: 'r', date: '2026-01-01' }),
    fails('Config.NotFound', /No run called "no-such-run"/),
  )
})

test('a run that is to be graded again and is not there: near names; a stage that is not there: those that are', async () => {
  const source = 'known-2026-11-20-a'
  await store.put(`runs/${source}/recipe.json`, Buffer.from('{}'))
  await store.put(`episodes/${source}/eval-rl/0/x/0/spec.json`, Buffer.from('{}'))
  const again = (regrade: string, stages?: string[]) =>
    openGrading(deps(), {
      regrade,
      ...(stages === undefined ? {} : { stages }),
      workflowId: 'w',
      firstExecutionRunId: 'r',
      date: '2026-01-01',
    })
  for (const near of ['known', 'knwon-2026-11-20-a', 'known-2026-11-20-b']) {
    await assert.rejects(again(near), fails('Config.NotFound', /did you mean known-2026-11-20-a\?/))
  }
  await assert.rejects(again('another'), (error: Error) => !error.message.includes('did you mean'))
  await assert.rejects(again('../runs'), fails('Config.Invalid', /letters, digits/))
  await assert.rejects(again(source, ['eval-base']), fails('Config.NotFound', /in eval-base. Its stages: eval-rl/))
  await assert.rejects(again(source), fails('Config.NotFound', /Expected submitted patches of run known/))
})

test('refuses a profile that cannot run a row, with the row and the reason', async () => {
  const file = predictions('profiled', [[at(0), 'a']])
  const ask = (profile: 'swebench-5' | 'rebench-v2', run: string) =>
    openGrading(deps(), { ...request(run, file), profile })
  await assert.rejects(ask('swebench-5', 'five'), fails('Config.Invalid', /swebench-5 can grade, but it cannot grade/))
  await ask('rebench-v2', 'two')
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan('two'))
  assert.equal(plan.instances[0]?.profile, 'rebench-v2')
})

test('the end of a run counts verdicts, lost, empty and missing patches separately in both denominators', async () => {
  const file = predictions('mixed', [
    [at(3), ''],
    [at(0), 'a'],
    [at(1), 'b'],
    [at(2), 'c'],
  ])
  const { run } = await openGrading(deps(), request('counted', file))
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan(run))
  // Instances that are not run come last, regardless of the order in the file.
  assert.deepEqual(
    plan.instances.map(({ taskId }) => taskId),
    [at(0), at(1), at(2), at(3)],
  )
  await assert.rejects(closeGrading(deps(), { run }), fails('Artifact.Missing', /Expected a verdict/))
  for (const [index, kind] of [
    [0, 'resolved'],
    [1, 'unresolved'],
  ] as const) {
    const instance = plan.instances[index] ?? assert.fail()
    const identity = identityOf(run, instance)
    const verdict: VerdictRecord = {
      schema: 'longhaul.verdict/1',
      episode: 'x',
      taskId: instance.taskId,
      kind,
      reason: null,
      profile: instance.profile,
      from: 'container',
      patchSha256: identity.patchSha256,
      failToPass: { passed: 0, total: 1 },
      passToPass: { passed: 0, total: 1 },
      gradeMs: 1,
      image: 'sha256:0',
      signs: [],
    }
    await store.putRecord(gradingKeys.file(identity, 'verdict.json'), verdict)
  }
  await recordUngradedPatch(store, run, plan.instances[2] ?? assert.fail(), 'Sandbox.EngineUnavailable')
  const { counts, graded, official } = await closeGrading(deps(), { run })
  assert.deepEqual(counts, { resolved: 1, unresolved: 2, couldNotGrade: 1, empty: 1, incomplete: 1 })
  assert.deepEqual([graded?.mean.toFixed(3), graded?.tasks], ['0.333', 3])
  assert.deepEqual([official?.mean, official?.tasks], [0.2, 5])
  assert.ok(graded?.interval !== null && official?.interval !== null)

  const [path = ''] = await writeOfficialFiles({ store, run, directory: join(root, 'out') })
  assert.equal(path, join(root, 'out', 'lane__m.counted.json'))
  const report = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown>
  assert.deepEqual(report['empty_patch_ids'], [at(3)])
  assert.deepEqual(report['incomplete_ids'], [at(4)])
  assert.equal(report['submitted_instances'], 4)
  // Records without logs say that no container ended: nothing that a harness would have read.
  assert.equal(report['error_instances'], 3)
  const folder = join(root, 'out/logs/run_evaluation/counted/lane__m', at(2))
  assert.equal(readFileSync(join(folder, 'patch.diff'), 'utf8'), 'c')
  assert.match(readFileSync(join(folder, 'run_instance.log'), 'utf8'), /could-not-grade \(Sandbox.EngineUnavailable\)/)

  // A log of an earlier version is stored as it is, one of this version is packed: both are written as the harness would.
  const logKey = (index: number): string =>
    gradingKeys.file(identityOf(run, plan.instances[index] ?? assert.fail()), 'test_output.txt')
  await store.put(logKey(0), Buffer.from('log of an earlier version\n'))
  await keepLog(store, logKey(1), Buffer.from('log of this version\n'))
  await writeOfficialFiles({ store, run, directory: join(root, 'out-2') })
  const written = [at(0), at(1)].map((taskId) =>
    readFileSync(join(root, 'out-2/logs/run_evaluation/counted/lane__m', taskId, 'test_output.txt'), 'utf8'),
  )
  assert.deepEqual(written, ['log of an earlier version\n', 'log of this version\n'])

  // A grading without a verdict in the end has left the log of a green test run: it is an error all the same.
  const { failToPass, passToPass } = tasks[2] ?? assert.fail()
  const passed = [...failToPass, ...passToPass].map((id) => `PASSED ${id}\n`).join('')
  await keepLog(store, logKey(2), Buffer.from(`>>>>> Start Test Output\n${passed}>>>>> End Test Output\n`))
  const [last = ''] = await writeOfficialFiles({ store, run, directory: join(root, 'out-3') })
  const { error_ids: errors, resolved_ids: resolved } = JSON.parse(readFileSync(last, 'utf8'))
  assert.deepEqual([errors, resolved], [[at(2)], []])
})

// The story: a grading run has ended, one of its patches without a verdict. A person resets it, and its engine is back.
test('a run that has ended is reset: its patch without a verdict is not graded after all, and its result stays', async () => {
  const result = await readOrThrow<GradingRecord>(store, gradingKeys.result('counted'))
  const noSandbox = new Proxy({}, { get: () => assert.fail('the sandbox host was asked') })
  const patchDeps = {
    ...deps(),
    plans: createPlanReader(store),
    sandbox: noSandbox,
  } as unknown as GradePatchDependencies
  const call = { run: 'counted', owner: 'grade/counted', ownerRun: 'again', attempt: 1, isLastAttempt: false }
  for (const [index, { kind, reason }] of result.instances.slice(0, 3).entries()) {
    assert.deepEqual(await gradePatch(patchDeps, { ...call, index }, new AbortController().signal), { kind, reason })
  }

  // The attempt of a worker that had stood still may write its verdict after all.
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan('counted'))
  const late = gradingKeys.file(identityOf('counted', plan.instances[2] ?? assert.fail()), 'verdict.json')
  const first = gradingKeys.file(identityOf('counted', plan.instances[0] ?? assert.fail()), 'verdict.json')
  const { schema, ...verdict } = await readOrThrow<VerdictRecord>(store, first)
  const later: ArtifactStore = {
    ...store,
    readRecord: async (key) => (key === late ? ({ schema, ...verdict } as never) : store.readRecord(key)),
  }
  const { counts } = await closeGrading({ ...deps(), store: later }, { run: 'counted' })
  assert.deepEqual(counts, result.counts)
})

test('regrading a grading run uses its patches with their first verdicts and changes no earlier record', async () => {
  const opened = await openGrading(deps(), {
    regrade: 'counted',
    run: 'again',
    workflowId: 'grade/again',
    firstExecutionRunId: 'again',
    date: '2026-01-01',
  })
  assert.equal(opened.patches, 3)
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan('again'))
  assert.deepEqual(
    plan.instances.map(({ before }) => before?.kind),
    ['resolved', 'unresolved', 'could-not-grade'],
  )
  for (const instance of plan.instances) await recordUngradedPatch(store, 'again', instance, 'image')
  const { changed } = await closeGrading(deps(), { run: 'again' })
  assert.equal(changed, 2)
  const before = await readOrThrow<GradingRecord>(store, gradingKeys.result('counted'))
  assert.equal(before.counts.resolved, 1)
  await assert.rejects(
    writeOfficialFiles({ store, run: 'again', directory: root }),
    fails('Config.Invalid', /graded patches of counted/),
  )
})

// The story: the patches of a run are graded again while it is played. The grading is terminated and started again; meanwhile the run
// has submitted another patch, and its own gradings have changed nothing of the first ones.
test('a regrading of a run that goes on is started again: it grades the patches that it began with', async () => {
  const run = 'goes-on'
  await openGrading(
    deps(),
    request(
      run,
      predictions('goes-on', [
        [at(0), 'a'],
        [at(1), 'b'],
      ]),
    ),
  )
  await judge(run, ['resolved'])
  const ask = { regrade: run, run: 'of-goes-on', workflowId: 'grade/of-goes-on', date: '2026-01-01' }
  const opened = await openGrading(deps(), { ...ask, firstExecutionRunId: 'one' })
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan('of-goes-on'))
  await judge(run, ['resolved', 'unresolved'])
  assert.deepEqual(await openGrading(deps(), { ...ask, firstExecutionRunId: 'two' }), opened)
  const { run: _, ...unnamed } = ask
  assert.deepEqual(await openGrading(deps(), { ...unnamed, firstExecutionRunId: 'three' }), opened)
  assert.deepEqual(await readOrThrow<GradingPlan>(store, gradingKeys.plan('of-goes-on')), plan)
  const other = openGrading(deps(), { ...ask, profile: 'swebench-5', firstExecutionRunId: 'four' })
  await assert.rejects(other, fails('Config.Invalid', /swebench-5/))
})

test('comparing two gradings of the same patches gives flips, the paired interval and McNemar from the records', async () => {
  const file = predictions(
    'flipping',
    [0, 1, 2, 3, 4].map((index): [string, string] => [at(index), `p${index}`]),
  )
  const first = ['unresolved', 'unresolved', 'unresolved', 'resolved', 'resolved'] as const
  await openGrading(deps(), request('first', file))
  await judge('first', first)
  await closeGrading(deps(), { run: 'first' })
  const ask = { workflowId: 'grade/flipped', firstExecutionRunId: 'flipped', date: '2026-01-01' }
  await openGrading(deps(), { ...ask, regrade: 'first', run: 'flipped' })
  await judge('flipped', ['resolved', 'resolved', 'unresolved', 'unresolved', 'ungraded'])
  assert.equal((await closeGrading(deps(), { run: 'flipped' })).changed, 4)

  const read = (run: string) => readOrThrow<GradingRecord>(store, gradingKeys.result(run))
  assert.equal(await compareGradings(store, await read('first')), null)
  const record = await read('flipped')
  const compared = await compareGradings(store, record)
  const { difference, mcnemar, flips } = compared?.comparison ?? assert.fail()
  assert.deepEqual([compared?.patches, compared?.unpaired, difference.mean], [4, 1, 0.25])
  // Two better, one worse: 2 · (1 + 3) / 2³ = 1.
  assert.deepEqual([mcnemar?.onlyAfter, mcnemar?.onlyBefore, mcnemar?.exact.toFixed(9)], [2, 1, '1.000000000'])
  assert.deepEqual(flips.map(({ taskId }) => taskId).toSorted(), [at(0), at(1), at(3)].toSorted())

  const shown = renderGrading(record, { origin: null, compared })
  assert.match(shown, /Verdicts that changed/)
  assert.match(shown, /^first +0\.250 ± 0\.250 +tasks +4 +4$/m)
  assert.match(shown, /^now +0\.500 ± 0\.289 +tasks +4 +4$/m)
  assert.match(shown, /1 patch without a verdict on one side: left out/)
  assert.match(shown, /^ *\+0\.250 ± 0\.479 +−0\.\d+ to \+\d\.\d+ +2 +1 +1 +1\.0000 /m)
})

/** Verdicts of a run's patches, in the plan's order; `ungraded`: the engine was not there. */
async function judge(run: string, kinds: readonly ('resolved' | 'unresolved' | 'ungraded')[]): Promise<void> {
  const plan = await readOrThrow<GradingPlan>(store, gradingKeys.plan(run))
  for (const [index, kind] of kinds.entries()) {
    const instance = plan.instances[index] ?? assert.fail()
    if (kind === 'ungraded') await recordUngradedPatch(store, run, instance, 'Sandbox.EngineUnavailable')
    else {
      const identity = identityOf(run, instance)
      const { episode } = makeRecord({ run, taskId: instance.taskId })
      const verdict = makeVerdict(makeRecord({ episode, taskId: instance.taskId }), kind)
      await store.putRecord(gradingKeys.file(identity, 'verdict.json'), {
        ...verdict,
        profile: instance.profile,
        patchSha256: identity.patchSha256,
      })
    }
  }
}

// The story: an episode could not be graded, and its iteration has ended. A person resets the episode to the moment before its grading. A
// verdict would contradict the result that ledger and score count.
test('an episode that ended without a verdict stays without one', async () => {
  const record = makeRecord({ verdict: 'could-not-grade', verdictReason: 'Grading.Failed', disposition: 'turn-limit' })
  const { episode, run, stage, iteration, taskId, index, policy } = record
  await store.putRecord(episodeKeys.result(episode), record)
  const input = { run, stage, iteration, taskId, index, policy, suite: 's' }
  const graded = await gradeSubmission(
    { store, tasks: async () => tasks[0] } as never,
    { ...input, disposition: 'turn-limit', patch: null, owner: 'o', ownerRun: 'r', attempt: 1, isLastAttempt: false },
    AbortSignal.timeout(10_000),
  )
  assert.deepEqual(graded, { episode, disposition: 'turn-limit', verdict: 'could-not-grade', turns: 6, failure: null })
  assert.equal(await store.readRecord(episodeKeys.verdict(episode)), null)
})

// The story: an episode was submitted and graded when its run was terminated, and then one of its turns was damaged on the disk. Its result
// could not be written, so each start of the run failed at the same record.
test('an episode with a damaged turn that was graded before is excluded, and its verdict does not count', async () => {
  const input = { run: 'r', stage: 's', iteration: 7, taskId: 't', index: 0, policy: 'v000000-aaaaaaaa', suite: 's' }
  const episode = episodeId(input)
  await store.putRecord(episodeKeys.verdict(episode), makeVerdict(makeRecord(input), 'resolved'))
  await store.put(episodeKeys.action(episode, 0), Buffer.from('{"half":'))
  const ended = { ...input, disposition: 'submitted', failure: 'Artifact.Corrupt' } as const
  assert.deepEqual(await recordUngraded(store, ended), {
    episode,
    disposition: 'submitted',
    verdict: 'could-not-grade',
    turns: 0,
    failure: 'Artifact.Corrupt',
  })
  const { verdictReason } = await readOrThrow<EpisodeRecord>(store, episodeKeys.result(episode))
  assert.equal(verdictReason, 'Artifact.Corrupt')
})
