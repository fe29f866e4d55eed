import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { test } from 'node:test'
import { loadRecipe } from '../../adapters/recipes/load-recipe.ts'
import { isLonghaulError } from '../../contracts/errors.ts'
import { readGateSource } from './gate-source.ts'

async function recipeOf(argument: string, options: Parameters<typeof readGateSource>[1] = {}) {
  const { request, source } = await readGateSource(argument, options)
  const { recipe: name, recipeText: text, overrides } = request
  const { recipe } = await loadRecipe({
    name,
    dirs: ['recipes'],
    ...(text === undefined ? {} : { text }),
    ...(overrides === undefined ? {} : { overrides }),
  })
  return { recipe, source, which: request.which }
}

test('a file of rows is gated by its absolute path, under the limits that every recipe begins with', async () => {
  const { recipe, source, which } = await recipeOf('rows/may 1.jsonl', { repeats: 50 })
  const rows = { kind: 'rows', path: resolve('rows/may 1.jsonl'), limit: null }
  assert.deepEqual([source, recipe.data.heldOut, recipe.data.gate.repeats], [rows, rows, 50])
  assert.deepEqual([recipe.sandbox.limit.cpu, recipe.sandbox.limit.memGiB], [2, 8])
  assert.deepEqual([recipe.name, which], ['may-1', 'heldOut'])
})

test('a file of rows under the limits of a recipe: a run of that recipe finds its gradings', async () => {
  const { recipe } = await recipeOf('rows.jsonl', { recipe: 'mini', set: ['sandbox.limit.pids=99'] })
  const { recipe: mini } = await loadRecipe({ name: 'mini', dirs: ['recipes'] })
  assert.deepEqual(recipe.sandbox.limit, { ...mini.sandbox.limit, pids: 99 })
  assert.equal(recipe.data.gate.repeats, mini.data.gate.repeats)
  assert.equal(recipe.data.heldOut.kind, 'rows')
})

test('a recipe’s suites are named by the recipe: held-out, or train behind a colon', async () => {
  assert.equal((await recipeOf('demo')).which, 'heldOut')
  const { which, source } = await recipeOf('demo:train', { repeats: 3 })
  assert.deepEqual([which, source.kind], ['train', 'synthetic'])
})

test('a recipe beside a recipe is refused', async () => {
  await assert.rejects(
    readGateSource('demo', { recipe: 'mini' }),
    (error) => isLonghaulError(error) && error.code === 'Config.Invalid' && /beside a file of rows/.test(error.message),
  )
})
