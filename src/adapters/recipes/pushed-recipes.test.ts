import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { useOwnStore } from '../../../test/support/command-line.ts'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { loadRecipe } from './load-recipe.ts'
import { pushedRecipes, pushRecipe } from './pushed-recipes.ts'

let store: ArtifactStore
let close: () => Promise<void>

before(async () => {
  ;({ store, close } = await useOwnStore())
})

after(() => close())

const text = `model: { base: some-model }
data:
  train: { kind: synthetic, seed: 1, split: train, count: 4 }
  heldOut: { kind: synthetic, seed: 1, split: eval, count: 4 }
evaluate: { attempts: 1, maxTurns: 6, context: 8000 }
`

test('a pushed recipe resolves where no folder has it, and pushing it again changes nothing', async () => {
  assert.equal((await pushRecipe(store, { name: 'mine', text, builtIn: ['demo'] })).changed, true)
  assert.equal((await pushRecipe(store, { name: 'mine', text, builtIn: ['demo'] })).changed, false)
  const loaded = await loadRecipe({ name: 'mine', pushed: pushedRecipes(store) })
  assert.deepEqual([loaded.recipe.name, loaded.recipe.seed, loaded.path], ['mine', 1, null])
  const given = await loadRecipe({ name: 'mine', text })
  assert.equal(loaded.hash, given.hash, 'the pushed recipe must equal that of the file')
})

test('refuses another text under a pushed or built-in name with the fix', async () => {
  await pushRecipe(store, { name: 'kept', text, builtIn: [] })
  await assert.rejects(pushRecipe(store, { name: 'kept', text: `${text}seed: 2\n`, builtIn: [] }), /--name kept-2/)
  await assert.rejects(pushRecipe(store, { name: 'demo', text, builtIn: ['demo'] }), /--name my-demo/)
  assert.equal((await loadRecipe({ name: 'kept', pushed: pushedRecipes(store) })).recipe.seed, 1)
})

test('an unknown name lists pushed recipes and those of folders, and the nearest one', async () => {
  await pushRecipe(store, { name: 'weekly-long', text, builtIn: [] })
  await assert.rejects(
    loadRecipe({ name: 'weekly-lng', pushed: pushedRecipes(store) }),
    (error: Error) =>
      /did you mean weekly-long\?/.test(error.message) && /Known recipes: .*weekly-long/.test(error.message),
  )
})
