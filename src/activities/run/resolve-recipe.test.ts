import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { useOwnStore } from '../../../test/support/command-line.ts'
import { NO_ROOTS } from '../../../test/support/no-roots.ts'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import type { ResolveRecipeInput } from '../../contracts/activities.types.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { runKeys } from '../../contracts/keys.ts'
import type { ResolvedRun } from '../../contracts/workflows.types.ts'
import { beginRemoval } from './remove-run.ts'
import type { RootRegistry } from './play-alone.ts'
import { resolveRecipe } from './resolve-recipe.ts'
import { allocateRun, untilForgotten } from './run-names.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

const dirs = [fileURLToPath(new URL('../../../recipes', import.meta.url))]

async function resolve(
  name: string,
  input: Partial<ResolveRecipeInput> = {},
  roots: RootRegistry = NO_ROOTS,
): Promise<ResolvedRun> {
  const recipe = { ...(await loadRecipe({ name: 'demo', dirs })).recipe, name }
  const root = { workflowId: `eval/${name}`, firstExecutionRunId: 'first', kind: 'eval' as const, date: '2026-11-22' }
  const checkPlaces = async () => {}
  return resolveRecipe(
    { store, loadRecipe: async () => ({ recipe, hash: 'h' }), checkPlaces, roots },
    { recipe: name, ...root, ...input },
  )
}

test('an evaluation started alone has the name of its recipe, and a training run has no evaluation name', async () => {
  assert.equal((await resolve('mini')).evaluation, 'mini')
  assert.equal((await resolve('trained', { kind: 'train' })).evaluation, undefined)
})

test('a recipe named like a stage, an iteration or a suite gives its evaluation another name', async () => {
  for (const name of ['rl', 'base', 'dapo-1', 'paper-2026', 'eval-a', 'a.b']) {
    assert.equal((await resolve(name)).evaluation, 'alone', name)
  }
})

test('a run whose claim names no evaluation is continued as one of an earlier version', async () => {
  const claim = { schema: 'longhaul.run/1', run: 'old', kind: 'eval', recipe: 'mini', recipeHash: 'h' }
  await store.putRecord(runKeys.claim('old'), { ...claim, workflowId: 'eval/old', firstExecutionRunId: 'before' })
  assert.equal((await resolve('mini', { run: 'old' })).evaluation, undefined)
  assert.equal((await resolve('mini', { workflowId: 'eval/old', firstExecutionRunId: 'again' })).evaluation, undefined)
})

// The story: a run is started in the Temporal UI while it is played under another workflow id. Both would take it up, and the one that
// ended first would release the policies and end the engines of the other.
test('refuses a run that another root plays, but not to its own root or after its end', async () => {
  const asked: unknown[] = []
  const open: RootRegistry = {
    isPlaying: async (input) => {
      asked.push(input)
      return true
    },
    findListed: async () => null,
  }
  const first = { run: 'twice', workflowId: 'from-the-ui', firstExecutionRunId: 'one' }
  const second = { run: 'twice', workflowId: 'eval/twice', firstExecutionRunId: 'two' }
  await resolve('mini', first, open)
  await resolve('mini', first, open)
  assert.deepEqual(asked, [], 'a repeated attempt of the root that made the run')

  await assert.rejects(resolve('mini', second, open), {
    code: 'Config.Invalid',
    message: /^Run twice is being played by the workflow from-the-ui\. Wait for its end, or cancel it/,
  })
  assert.deepEqual(asked, [{ run: 'twice', workflowId: 'from-the-ui' }])
  assert.equal((await resolve('mini', second)).run, 'twice')
})

test('refuses a run name of another kind and says what that run does', async () => {
  await resolve('mini', { run: 'taken' })
  await assert.rejects(resolve('mini', { run: 'taken', kind: 'train', workflowId: 'train/taken' }), {
    code: 'Run.RecipeConflict',
    message: /^Run taken exists and evaluates\. Choose another name/,
  })
})

// The story: an evaluation was terminated half-way, and is started again under its name with another policy. Finished episodes were
// taken from records, the others were played by the other policy, and one score counted both.
test('an evaluation is not continued with another policy than it was started with', async () => {
  await resolve('mini', { run: 'half', policy: 'base' })
  assert.equal((await resolve('mini', { run: 'half', policy: 'base', firstExecutionRunId: 'again' })).run, 'half')
  for (const policy of ['v000004-0123abcd', undefined]) {
    await assert.rejects(resolve('mini', { run: 'half', ...(policy && { policy }) }), {
      code: 'Run.RecipeConflict',
      message: /^Run half exists and evaluates the policy base, not (v000004-0123abcd|recipe)\. Choose another name/,
    })
  }
  // Without a name, the id of an ended workflow gives another run.
  const ids = { workflowId: 'eval/by-id', firstExecutionRunId: 'one' }
  assert.equal((await resolve('mini', ids)).run, 'by-id')
  assert.equal((await resolve('mini', { ...ids, firstExecutionRunId: 'two' })).run, 'by-id')
  assert.notEqual((await resolve('mini', { ...ids, firstExecutionRunId: 'two', policy: 'base' })).run, 'by-id')
  // A claim of an earlier version does not say what it evaluates.
  const claim = { schema: 'longhaul.run/1', run: 'older', kind: 'eval', recipe: 'mini', recipeHash: 'h' }
  await store.putRecord(runKeys.claim('older'), { ...claim, workflowId: 'eval/older', firstExecutionRunId: 'before' })
  assert.equal((await resolve('mini', { run: 'older', policy: 'base' })).run, 'older')
})

test('the name of a removed run can be used again once no worker caches its records', async () => {
  const removedMs = 1_000_000
  await (await beginRemoval(store, 'gone', () => removedMs)).end()
  const waited: number[] = []
  const wait = (nowMs: number) =>
    untilForgotten(store, 'gone', { now: () => nowMs, sleep: async (ms) => void waited.push(ms) })
  // At once, later, when all have forgotten, and by a clock that is far behind.
  for (const nowMs of [removedMs, removedMs + 20_000, removedMs + 40_000, removedMs - 3_600_000]) await wait(nowMs)
  assert.deepEqual(waited, [35_000, 15_000, 35_000])
  await untilForgotten(store, 'never-removed', { now: () => 0, sleep: async () => assert.fail('nothing to wait for') })
})

test('a start is refused when a removal began while its name was claimed', async () => {
  await resolve('mini', { run: 'both' })
  const racing: ArtifactStore = {
    ...store,
    claimRecord: async (key, record) => {
      if (key === runKeys.claim('both')) await beginRemoval(store, 'both')
      return store.claimRecord(key, record)
    },
  }
  const again = { run: 'both', kind: 'eval', recipe: 'mini', recipeHash: 'h', date: '2026-11-22' } as const
  await assert.rejects(allocateRun(racing, { ...again, workflowId: 'eval/both', firstExecutionRunId: 'again' }), {
    code: 'Config.Invalid',
    message: /^Run both is being removed/,
  })
})
