import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { makeTrainingRecipe } from '../../../test/support/training-records.ts'
import { gateWidth } from './gate-width.ts'

function recipe(width: number | null): Recipe {
  const made = makeTrainingRecipe()
  return { ...made, data: { ...made.data, gate: { repeats: 50, refused: 'exclude', width } } }
}

const hosts = (count: number): string[] => Array.from({ length: count }, (_, index) => `${index + 1}@host-${index}`)
const widthOf = async (pollers: string[] | null, width: number | null = null): Promise<number> =>
  (await gateWidth({ recipe: recipe(width), pollers: () => Promise.resolve(pollers) })).width

test('the width is eight tasks per polling host, and sixteen for at most one host', async () => {
  assert.deepEqual([await widthOf(hosts(1)), await widthOf([]), await widthOf(null)], [16, 16, 16])
  assert.deepEqual([await widthOf(hosts(3)), await widthOf(hosts(100))], [24, 800])
  assert.equal(await widthOf(hosts(5000)), 2000)
})

test('a host with a restarted worker counts once, and the recipe’s width overrides all', async () => {
  assert.equal(await widthOf(['11@a', '12@a', '13@a', '11@b', '11@c']), 24)
  assert.equal(await widthOf(hosts(100), 5), 5)
})
