/**
 * `ledger verify` on a real store: a batch that the product built, then each way in which files can disagree with it; and runs of other kinds,
 * of which the commands that read records say what they have, or that they have none.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { makeVerdict } from '../../../test/support/evaluation-records.ts'
import { makeAction, makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { closeGrading } from '../../activities/grading/close-grading.ts'
import { openGrading } from '../../activities/grading/open-grading.ts'
import { identityOf, recordUngradedPatch } from '../../activities/grading/stored-plan.ts'
import { createSuiteReader, createTaskReader, readOrThrow } from '../../activities/runtime/stored-records.ts'
import { buildBatch } from '../../activities/training/build-batch.ts'
import type { LedgerCheck } from '../../activities/training/check-ledger.ts'
import { importBasePolicy } from '../../adapters/trainer-job/job/policy-directory.ts'
import { sealRecord } from '../../adapters/artifacts/store-rules.ts'
import { loadTasksAndFile } from '../../adapters/datasets/load-tasks.ts'
import { synthesizeSuite } from '../../adapters/datasets/synthetic/synthesize.ts'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import type { RunKind } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import type { GradingPlan, GradingRecord } from '../../contracts/grading.types.ts'
import { episodeKeys, gradingKeys, runKeys } from '../../contracts/keys.ts'
import { NEUTRAL_SAMPLING } from '../../contracts/neutral-sampling.ts'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { putPart } from '../../../test/support/record-examples.ts'

const PLACE = { run: 'books', stage: 'rft', iteration: 1 }

let root: string
let store: ArtifactStore
let close: () => Promise<void>
let records: EpisodeRecord[]

before(async () => {
  ;({ root, store, close } = await useOwnStore())
  const directory = join(import.meta.dirname, '../../../policies/demo-base/model')
  const policy = await importBasePolicy({ store, directory })
  const fields = { ...PLACE, taskId: 'task', turns: 1, policy: policy.version }
  records = [
    makeRecord({ ...fields, index: 0, verdict: 'resolved' }),
    makeRecord({ ...fields, index: 1, verdict: 'unresolved' }),
    makeRecord({ ...fields, index: 2, disposition: 'infra', verdict: null, failure: 'Sandbox.Lost' }),
    makeRecord({ ...fields, index: 3, verdict: 'resolved' }),
  ]
  for (const record of records) {
    const { episode } = record
    await putPart(store, episodeKeys.result(episode), record)
    const start = { schema: 'longhaul.episode-start/1', episode, trainingPromptIds: null }
    await putPart(store, episodeKeys.start(episode), start)
    await putPart(store, episodeKeys.action(episode, 0), makeAction(record, 0))
  }
  const recipe = { ...makeTrainingRecipe(), rollout: { sampling: NEUTRAL_SAMPLING } } as Recipe
  await putPart(store, runKeys.recipe(PLACE.run), { schema: 'longhaul.recipe/1', hash: 'test', recipe })
  await buildBatch({ store, recipe }, { ...PLACE, policy, suite: 's' })
})

after(() => close())

async function verify(): Promise<{ exitCode: number; check: LedgerCheck }> {
  const { exitCode, stdout } = await longhaul('ledger', 'verify', PLACE.run, '--json')
  return { exitCode, check: JSON.parse(stdout) as LedgerCheck }
}

test('what the product wrote adds up: each episode once, with the reason of each that did not train', async () => {
  const { exitCode, check } = await verify()
  assert.deepEqual([exitCode, check.mismatches], [0, []])
  assert.deepEqual(check.totals, {
    episodes: 4,
    trained: 2,
    evaluated: 0,
    dropped: { unresolved: 1 },
    excluded: { infra: 1 },
  })
  const { stdout } = await longhaul('ledger', 'verify', PLACE.run)
  assert.match(stdout, /it adds up: each episode exactly once/)
})

test('an episode that nothing accounts for, one without a record, one in two batches: each is found, exit 2', async () => {
  const lost = makeRecord({ ...PLACE, taskId: 'task', index: 9, verdict: 'resolved', turns: 1 })
  await putPart(store, episodeKeys.result(lost.episode), lost)
  assert.deepEqual(await kindsOf(), [2, ['missing']])
  await rm(store.path(episodeKeys.result(lost.episode)))

  const [first] = records
  assert.ok(first !== undefined)
  const path = store.path(episodeKeys.result(first.episode))
  await rm(path)
  assert.deepEqual(await kindsOf(), [2, ['unknown-episode']])
  await putPart(store, episodeKeys.result(first.episode), first)

  const again = `${runKeys.batch(PLACE.run, PLACE.stage, PLACE.iteration, 7)}/batch.json`
  await store.put(again, Buffer.from(JSON.stringify({ policies: [], trajectories: [{ id: first.episode }] })))
  const [exitCode, kinds] = await kindsOf()
  assert.equal(exitCode, 2)
  assert.ok(kinds.includes('in-two-batches'), kinds.join(' '))
  const { stdout } = await longhaul('ledger', 'verify', PLACE.run)
  assert.match(stdout, /\d mismatches$/m)
  await rm(store.path(again))
})

test('a batch that is being built is no mismatch; one that was trained on without a ledger is, exit 2', async () => {
  const next = { ...PLACE, iteration: 2 }
  const { episode } = makeRecord({ ...next, taskId: 'task', index: 0, verdict: 'resolved', turns: 1 })
  const batch = `${runKeys.batch(next.run, next.stage, next.iteration, 0)}/batch.json`
  await store.put(batch, Buffer.from(JSON.stringify({ policies: [], trajectories: [{ id: episode }] })))
  assert.deepEqual(await kindsOf(), [0, []])
  for (const sign of [
    `${runKeys.job(next.run, next.stage, next.iteration, 0)}/job.json`,
    runKeys.training(next.run, next.stage, next.iteration, 0),
  ]) {
    await store.put(sign, Buffer.from('{}'))
    assert.deepEqual(await kindsOf(), [2, ['trained-unledgered']])
    await rm(store.path(sign))
  }
  await rm(store.path(batch))
})

test('a batch whose list is cut off, or lacks an episode: the first is named as corrupt, the second is a mismatch, exit 2', async () => {
  const key = `${runKeys.batch(PLACE.run, PLACE.stage, PLACE.iteration, 0)}/batch.json`
  const whole = await store.read(key)
  assert.ok(whole !== null)
  const manifest = JSON.parse(Buffer.from(whole).toString()) as { trajectories: object[] }
  for (const damaged of [Buffer.from(whole).subarray(0, 40), Buffer.alloc(0), Buffer.from('null'), Buffer.from('{}')]) {
    await writeFile(store.path(key), damaged)
    const { exitCode, stderr } = await longhaul('ledger', 'verify', PLACE.run)
    assert.equal(exitCode, 2)
    assert.match(stderr, new RegExp(`Artifact\\.Corrupt: .*${key}`))
  }
  await writeFile(store.path(key), JSON.stringify({ ...manifest, trajectories: manifest.trajectories.slice(1) }))
  const [exitCode, kinds] = await kindsOf()
  assert.deepEqual([exitCode, kinds.includes('not-in-batch')], [2, true], kinds.join(' '))
  await writeFile(store.path(key), whole)
})

test('a result that was changed from lost to failed: the rules say something else than the ledger, exit 2', async () => {
  const lost = records[2]
  assert.ok(lost !== undefined)
  const key = episodeKeys.result(lost.episode)
  await rm(store.path(key))
  await putPart(store, key, { ...lost, disposition: 'submitted', verdict: 'unresolved', failure: null })
  assert.deepEqual(await kindsOf(), [2, ['other-fate']])
})

test('a result that is a copy of another, of a later version, or a pipe is named, and nothing adds up or waits, exit 2', async () => {
  const [won, failed] = records
  assert.ok(won !== undefined && failed !== undefined)
  const path = store.path(episodeKeys.result(failed.episode))
  const damages: [string, () => Promise<unknown>][] = [
    [`it is a record of episode ${won.episode}`, () => copyFile(store.path(episodeKeys.result(won.episode)), path)],
    [
      'a later version of Longhaul wrote it',
      () => writeFile(path, sealRecord({ ...failed, schema: 'longhaul.episode-result/2' })),
    ],
    ['it is a pipe', async () => assert.equal(spawnSync('mkfifo', [path]).status, 0)],
    ['it is a symbolic link', () => symlink(store.path(episodeKeys.result(won.episode)), path)],
  ]
  for (const [fault, damage] of damages) {
    await rm(path)
    await damage()
    const { exitCode, stderr } = await longhaul('ledger', 'verify', PLACE.run)
    assert.equal(exitCode, 2, fault)
    assert.match(stderr, new RegExp(`Artifact\\.Corrupt: .*${episodeKeys.result(failed.episode)}, fault=${fault}`))
  }
  await rm(path)
  await putPart(store, episodeKeys.result(failed.episode), failed)
})

async function kindsOf(): Promise<[number, string[]]> {
  const { exitCode, check } = await verify()
  return [exitCode, check.mismatches.map(({ kind }) => kind)]
}

test('a run whose first iteration is open has no ledger: refused, and nothing is said to add up', async () => {
  await openRun('young', 'train')
  const { exitCode, stdout, stderr } = await longhaul('ledger', 'verify', 'young')
  assert.deepEqual([exitCode, stdout], [1, ''])
  assert.match(stderr, /no iteration of young has ended: .*nothing to verify/)
})

test('a report without an episode, or of no file, does not say that everything follows from the records', async () => {
  await openRun('empty', 'train')
  const { stdout } = await longhaul('report', 'empty')
  assert.doesNotMatch(stdout, /it adds up/)
  assert.match(stdout, /No iteration has ended/)
  const recomputed = await longhaul('report', 'empty', '--recompute')
  assert.deepEqual([recomputed.exitCode, recomputed.stdout], [1, ''])
  assert.match(recomputed.stderr, /no evaluation of empty has ended, and it has no report/)
})

test('a run that gated a suite: each command that reads records refuses in one line that says what it is', async () => {
  await openRun('gated', 'gate')
  for (const args of [
    ['ledger', 'verify', 'gated'],
    ['report', 'gated'],
    ['report', 'gated', '--recompute'],
    ['compare', 'gated', 'gated'],
    ['track', 'gated', '--points'],
  ]) {
    const { exitCode, stdout, stderr } = await longhaul(...args)
    assert.deepEqual([exitCode, stdout], [1, ''], args.join(' '))
    assert.match(stderr, /^[^\n]*gated gated a suite[^\n]*$/m, args.join(' '))
  }
})

test('a grading run: verdicts are derived again, each patch once; before its end it is said to be open', async () => {
  await grade('graded')
  const open = await longhaul('ledger', 'verify', 'graded')
  assert.equal(open.exitCode, 1)
  assert.match(open.stderr, /graded grades patches and has not ended/)
  assert.match((await longhaul('report', 'graded')).stderr, /graded grades patches and has not ended/)

  await closeGrading(readers(), { run: 'graded' })
  const { exitCode, stdout } = await longhaul('ledger', 'verify', 'graded')
  assert.equal(exitCode, 0)
  assert.match(
    stdout,
    /^3 gradings: 1 resolved, 1 unresolved, 1 could not be graded\nit adds up: each patch exactly once$/m,
  )
  assert.equal((await longhaul('report', 'graded')).exitCode, 0)
  for (const args of [
    ['report', 'graded', '--recompute'],
    ['report', 'graded', '--html', join(root, 'report.html')],
    ['compare', 'graded', 'graded'],
    ['track', 'graded', '--points'],
  ]) {
    const refused = await longhaul(...args)
    assert.equal(refused.exitCode, 1, args.join(' '))
    assert.match(refused.stderr, /graded grades patches/, args.join(' '))
  }
})

test('a grading run whose result says another verdict, leaves a patch out or counts otherwise: exit 2', async () => {
  await grade('tampered')
  await closeGrading(readers(), { run: 'tampered' })
  const key = gradingKeys.result('tampered')
  const right = await readOrThrow<GradingRecord>(store, key)
  const kinds = async (record: GradingRecord): Promise<[number, string[]]> => {
    await writeFile(store.path(key), sealRecord(record))
    const { exitCode, stdout } = await longhaul('ledger', 'verify', 'tampered', '--json')
    return [exitCode, (JSON.parse(stdout) as LedgerCheck).mismatches.map(({ kind }) => kind)]
  }
  const [first = assert.fail(), ...others] = right.instances
  const changed = [{ ...first, kind: 'unresolved' as const }, ...others]
  assert.deepEqual(await kinds({ ...right, instances: changed }), [2, ['other-verdict']])
  assert.deepEqual(await kinds({ ...right, instances: others }), [2, ['patches']])
  assert.deepEqual(await kinds({ ...right, counts: { ...right.counts, resolved: 3 } }), [2, ['totals']])
  assert.deepEqual(await kinds(right), [0, []])
})

async function openRun(run: string, kind: RunKind): Promise<void> {
  const { recipe, hash } = await loadRecipe({ name: 'mini', dirs: ['recipes'] })
  await putPart(store, runKeys.recipe(run), { schema: 'longhaul.recipe/1', hash, recipe })
  const claim = { schema: 'longhaul.run/1', run, kind, recipe: 'mini', recipeHash: hash }
  await putPart(store, runKeys.claim(run), { ...claim, workflowId: `${kind}/${run}`, firstExecutionRunId: run })
}

function readers() {
  return { store, tasks: createTaskReader(store), suites: createSuiteReader(store) }
}

/** A run that has graded three patches, and has not ended. */
async function grade(run: string): Promise<void> {
  const rows = join(root, 'rows.jsonl')
  const tasks = synthesizeSuite({ seed: 5, split: 'eval', count: 3, offset: 0 })
  await writeFile(rows, tasks.map(({ row }) => `${JSON.stringify(row)}\n`).join(''))
  const deps = {
    ...readers(),
    loadTasks: loadTasksAndFile,
    loadRecipe: (input: { name: string }) => loadRecipe({ ...input, dirs: ['recipes'] }),
  }
  const asked = { predictions: 'gold', suite: rows, run, recipe: 'mini' }
  await openGrading(deps, { ...asked, workflowId: `grade/${run}`, firstExecutionRunId: run, date: '2026-01-01' })
  const { instances } = await readOrThrow<GradingPlan>(store, gradingKeys.plan(run))
  for (const [place, kind] of (['resolved', 'unresolved', null] as const).entries()) {
    const instance = instances[place] ?? assert.fail()
    if (kind === null) {
      await recordUngradedPatch(store, run, instance, 'Sandbox.EngineUnavailable')
      continue
    }
    const identity = identityOf(run, instance)
    const verdict = makeVerdict(makeRecord({ run, taskId: instance.taskId }), kind)
    await putPart(store, gradingKeys.file(identity, 'verdict.json'), {
      ...verdict,
      profile: instance.profile,
      patchSha256: identity.patchSha256,
    })
  }
}
