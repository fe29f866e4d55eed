/** `run remove` on a real store beside a real Temporal server. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { defineSearchAttributeKey } from '@temporalio/common'
import { useEnvironment } from '../../../test/support/environment.ts'
import { longhaul, useOwnStore } from '../../../test/support/command-line.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { putPart, wholeRecord } from '../../../test/support/record-examples.ts'
import { NO_ROOTS } from '../../../test/support/no-roots.ts'
import { eventually } from '../../../test/support/hang.ts'
import { connectToOwnNamespace, needsServer } from '../../../test/support/own-namespace.ts'
import { allocateRun, type AllocateRunInput } from '../../activities/run/run-names.ts'
import { playAlone } from '../../activities/run/play-alone.ts'
import { removeRun } from '../../activities/run/remove-run.ts'
import { promote } from '../../activities/training/policies.ts'
import { prepareNamespace } from '../../stack/temporal-namespace.ts'
import type { LonghaulConnection } from '../../client/index.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { episodeKeys, nightKeys, policyKeys, removalKeys, runKeys } from '../../contracts/keys.ts'
import { pushRecipe } from '../../adapters/recipes/pushed-recipes.ts'
import { policyRef } from '../../../test/support/scripted-pipeline.ts'

const CLAIM: AllocateRunInput = {
  run: undefined,
  kind: 'train',
  recipe: 'mini',
  recipeHash: 'a'.repeat(64),
  workflowId: 'train/old',
  firstExecutionRunId: '1',
  date: '2026-01-01',
}

describe('run remove', { skip: needsServer }, () => {
  let connection: LonghaulConnection
  let store: ArtifactStore
  let close: () => Promise<void>
  useEnvironment({ after })

  before(async () => {
    connection = await connectToOwnNamespace('run-remove-test')
    const { address, namespace } = connection
    await prepareNamespace({ address, namespace, raiseRetention: false })
    ;({ store, close } = await useOwnStore())
    process.env['LONGHAUL_TEMPORAL_ADDRESS'] = connection.address
    process.env['LONGHAUL_NAMESPACE'] = connection.namespace
  })
  after(async () => {
    await connection.close()
    await close()
  })

  async function storeRun(run: string): Promise<void> {
    await allocateRun(store, { ...CLAIM, run })
    for (const index of [0, 1]) {
      const record = makeRecord({ run, stage: 'rft', iteration: 1, taskId: 'task', index })
      await putPart(store, episodeKeys.result(record.episode), record)
    }
    await putPart(store, runKeys.ledger(run, 'rft', 1), { run })
  }

  const remove = (...words: string[]) => longhaul('run', 'remove', ...words)

  test('an ended run goes whole, its neighbour and the policies stay, and its name is free', async () => {
    await storeRun('old')
    await storeRun('old-2')
    await putPart(store, policyKeys.ref(policyRef(1).version), policyRef(1))
    const looked = await remove('old', '--dry-run', '--json')
    assert.deepEqual(
      [looked.exitCode, JSON.parse(looked.stdout).episodes, JSON.parse(looked.stdout).records],
      [0, 2, 2],
    )
    assert.equal((await store.list('runs/old/')).length, 2)
    const removed = await remove('old', '--json')
    assert.deepEqual([removed.exitCode, JSON.parse(removed.stdout).removed], [0, 4], removed.stderr)
    for (const folder of ['runs/old/', 'episodes/old/', 'removals/']) assert.deepEqual(await store.list(folder), [])
    assert.equal((await store.list('episodes/old-2/')).length, 2)
    assert.notEqual(await store.readRecord(policyKeys.ref(policyRef(1).version)), null)
    assert.equal((await allocateRun(store, { ...CLAIM, run: 'old', recipeHash: 'b'.repeat(64) })).run, 'old')
  })

  test('a run that is open, or whose children still are, is kept with the id of what is open', async () => {
    await storeRun('open')
    const start = (workflowId: string) =>
      connection.client.workflow.start('rollout', {
        taskQueue: 'none',
        workflowId,
        typedSearchAttributes: [{ key: defineSearchAttributeKey('TrainRun', 'KEYWORD'), value: 'open' }],
      })
    const root = await start('train/open')
    const kept = await remove('open')
    assert.equal(kept.exitCode, 1)
    assert.match(kept.stderr, /Run\.StillClosing.*train\/open is under way/s)
    const child = await start('train/open/rft/0001')
    await root.terminate()
    await eventually(async () => {
      const again = await remove('open')
      assert.match(again.stderr, /train\/open\/rft\/0001 is under way/)
    })
    assert.equal((await store.list('episodes/open/')).length, 2)
    assert.deepEqual(await store.list('removals/'), [], 'the name is not refused')
    await child.terminate()
    await eventually(async () => assert.equal((await remove('open')).exitCode, 0))
    assert.deepEqual(await store.list('episodes/open/'), [])
  })

  // The story: a run was continued in the Temporal UI a moment ago. Its workflow has any id and has not said yet what it plays.
  test('a root that has just taken the run is in no index: the run is kept with its id', async () => {
    await storeRun('taken')
    const root = await connection.client.workflow.start('trainAgent', { taskQueue: 'none', workflowId: 'from-the-ui' })
    const player = { workflowId: root.workflowId, runId: root.firstExecutionRunId }
    await playAlone({ store, roots: NO_ROOTS, run: 'taken', player })
    const kept = await remove('taken')
    assert.match(kept.stderr, /Run\.StillClosing.*from-the-ui is under way/s)
    await root.terminate()
    assert.equal((await remove('taken')).exitCode, 0)
  })

  test('a removal that was interrupted: the name starts no run, and the same command ends it', async () => {
    await storeRun('torn')
    const tearing: ArtifactStore = {
      ...store,
      removeFolder: async (folder) => {
        if (folder === 'runs/torn/') throw new Error('the machine stops')
        return store.removeFolder(folder)
      },
    }
    await assert.rejects(
      removeRun(tearing, 'torn', async () => null),
      /the machine stops/,
    )
    await assert.rejects(allocateRun(store, { ...CLAIM, run: 'torn' }), {
      code: 'Config.Invalid',
      message: /longhaul run remove torn/,
    })
    // Nor one that would like the name by its workflow's id.
    assert.notEqual((await allocateRun(store, { ...CLAIM, workflowId: 'train/torn' })).run, 'torn')
    assert.equal((await remove('torn')).exitCode, 0)
    assert.equal(await store.readRecord(removalKeys.begun('torn')), null)
    assert.equal((await allocateRun(store, { ...CLAIM, run: 'torn' })).run, 'torn')
  })

  test('Temporal does not answer whether the run is open: it is whole, and its name is not refused', async () => {
    await storeRun('unasked')
    const unanswered = async (): Promise<never> => {
      throw new Error('no answer')
    }
    await assert.rejects(removeRun(store, 'unasked', unanswered), /no answer/)
    assert.equal((await allocateRun(store, { ...CLAIM, run: 'unasked' })).run, 'unasked')
    // Half a run of an earlier removal stays refused.
    const begun = removalKeys.begun('unasked')
    await store.claimRecord(begun, wholeRecord(begun, { run: 'unasked' }))
    await assert.rejects(removeRun(store, 'unasked', unanswered), /no answer/)
    await assert.rejects(allocateRun(store, { ...CLAIM, run: 'unasked' }), { code: 'Config.Invalid' })
  })

  test('a later night ended before its main evaluation: the newest main one is kept, other runs are not', async () => {
    for (const run of ['main-night', 'early-night', 't']) await storeRun(run)
    const night = (at: string, run: string, role: string) =>
      putPart(store, nightKeys.night({ series: 't', at, run, name: role }), { role })
    await night('2026-01-01T00:00:00Z', 't', 'main')
    await night('2026-01-02T00:00:00Z', 'main-night', 'main')
    await night('2026-01-03T00:00:00Z', 'early-night', 'suite')
    for (const run of ['main-night', 'early-night']) {
      assert.match((await remove(run)).stdout, /the newest night of t/, run)
      assert.equal((await store.list(`episodes/${run}/`)).length, 2)
    }
    // Called as its series is.
    assert.equal((await remove('t')).exitCode, 0)
  })

  test('the newest night and what the last promotion rests on are kept, unless --force says otherwise', async () => {
    await storeRun('night-2')
    await putPart(store, nightKeys.night({ series: 's', at: '2026-01-01T00:00:00Z', run: 'night-1', name: 'n' }), {})
    await putPart(store, nightKeys.night({ series: 's', at: '2026-01-02T00:00:00Z', run: 'night-2', name: 'n' }), {})
    const night = await remove('night-2')
    assert.equal(night.exitCode, 1)
    assert.match(night.stdout, /the newest night of s/)
    await storeRun('best')
    const score = { name: 'rl', policy: policyRef(1).version, passAt1: 1, sem: 0, tasks: 1, attempts: 1 }
    await promote(store, { run: 'best', policy: policyRef(1), score })
    const promoted = await remove('best')
    assert.equal(promoted.exitCode, 1)
    assert.match(promoted.stdout, /the last promotion/)
    assert.equal((await store.list('episodes/best/')).length, 2)
    assert.equal((await remove('best', '--force')).exitCode, 0)
    assert.deepEqual(await store.list('runs/best/'), [])
  })

  test('a baseline that the newest night, or a pushed recipe, names is kept; one of an older night alone is not', async () => {
    for (const run of ['base-1', 'base-2', 'base-3', 'night-b']) await storeRun(run)
    const night = async (at: string, run: string, baseline: string): Promise<void> => {
      await putPart(store, nightKeys.night({ series: 'b', at, run, name: 'n' }), { role: 'main' })
      const compare = { last: true, baseline, margin: 0, confidence: 0.95, minGraded: 1 }
      await putPart(store, runKeys.recipe(run), { recipe: { evaluate: { compare } } })
    }
    await night('2026-01-01T00:00:00Z', 'night-a', 'base-1')
    await night('2026-01-02T00:00:00Z', 'night-b', 'base-2:nightly')
    await pushRecipe(store, { name: 'held', text: 'evaluate:\n  compare: { baseline: base-3 }\n', builtIn: [] })
    for (const run of ['night-a', 'night-b']) await putPart(store, runKeys.report(run, 'report.json'), {})
    const byNight = await remove('base-2')
    assert.deepEqual([byNight.exitCode, (await store.list('episodes/base-2/')).length], [1, 2])
    assert.match(byNight.stdout, /the baseline that nights of b are compared with/)
    const byRecipe = await remove('base-3')
    assert.deepEqual([byRecipe.exitCode, (await store.list('episodes/base-3/')).length], [1, 2])
    assert.match(byRecipe.stdout, /the baseline that the pushed recipe held names/)
    assert.equal((await remove('base-1')).exitCode, 0)
    assert.equal((await remove('base-2', '--force')).exitCode, 0)
  })

  test('a baseline of a run that is not over is kept; it may go once that run has a report', async () => {
    await storeRun('base-4')
    const compare = { last: true, baseline: 'base-4:nightly', margin: 0, confidence: 0.95, minGraded: 1 }
    await putPart(store, runKeys.recipe('open-c'), { recipe: { evaluate: { compare } } })
    const kept = await remove('base-4')
    assert.deepEqual([kept.exitCode, (await store.list('episodes/base-4/')).length], [1, 2])
    assert.match(kept.stdout, /the run open-c names it as its baseline and has no report yet/)
    await putPart(store, runKeys.report('open-c', 'report.json'), {})
    assert.equal((await remove('base-4')).exitCode, 0)
  })

  /**
   * Two operators remove one run. The first is at work when the second begins. It ends and frees the name, and a new run takes it. The
   * second, which went on beside it, then removed the records of the new run.
   */
  test('a second removal of a run at once is refused, and a new run of its name keeps its records', async () => {
    await storeRun('twice')
    const asked = Promise.withResolvers<null>()
    const first = removeRun(store, 'twice', () => asked.promise)
    await eventually(async () => assert.notEqual(await store.readRecord(removalKeys.begun('twice')), null))
    const second = await remove('twice')
    assert.equal(second.exitCode, 1)
    assert.match(second.stderr, /Run\.StillClosing.*Another command removes twice/s)
    asked.resolve(null)
    assert.equal((await first).removed, 4)
    await storeRun('twice')
    assert.equal((await store.list('episodes/twice/')).length, 2)
    assert.deepEqual(await store.list('removals/twice/'), [])
  })

  /** A laptop is closed amid a removal and opened after another command has ended it and a new run has taken the name. */
  test('a removal that was silent is taken up by the next one, and removes nothing when it wakes', async () => {
    await storeRun('asleep')
    const asked = Promise.withResolvers<null>()
    const sleeper = removeRun(store, 'asleep', () => asked.promise)
    await eventually(async () => assert.notEqual(await store.readRecord(removalKeys.begun('asleep')), null))
    const later = await removeRun(
      store,
      'asleep',
      async () => null,
      () => Date.now() + 120_000,
    )
    assert.equal(later.removed, 4)
    await storeRun('asleep')
    asked.resolve(null)
    await assert.rejects(sleeper, { code: 'Run.StillClosing', message: /has gone on with the removal of asleep/ })
    assert.equal((await store.list('episodes/asleep/')).length, 2)
    assert.deepEqual(await store.list('removals/asleep/'), [])
  })

  test('no such run, and names that are none: one error, nothing is touched', async () => {
    const unknown = await remove('nothing-of-it')
    assert.match(unknown.stderr, /Config\.NotFound/)
    const bad = await remove('../../etc')
    assert.match(bad.stderr, /^error: .*got "\.\.\/\.\.\/etc"/m)
    assert.equal(bad.exitCode, 1)
  })
})
