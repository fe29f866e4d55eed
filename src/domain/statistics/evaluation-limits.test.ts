import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Recipe } from '../../contracts/recipe.types.ts'
import { evaluationLimits, haveEqualLimits, isReservedStage, limitNames } from './evaluation-limits.ts'

const recipe = {
  evaluate: {
    maxTurns: 80,
    context: 131_072,
    limits: { rft: { maxTurns: 30, context: 50 }, early: { maxTurns: 40, context: 60 } },
  },
  rft: {},
  reinforce: { stages: [{ name: 'early' }, { name: 'late' }] },
}
const turns = (evaluation: string, of: Parameters<typeof evaluationLimits>[0] = recipe): number =>
  evaluationLimits(of, evaluation).maxTurns

test('limits of a stage apply inside it and after it, on every suite, and others use the common ones', () => {
  assert.deepEqual(
    ['rft', 'rft.may', 'early', 'early.may', 'early-0012'].map((name) => turns(name)),
    [30, 30, 40, 40, 40],
  )
  assert.deepEqual(
    ['base', 'base.may', 'late-0001', 'rl', 'rl.may', 'nightly', 'nightly.may'].map((name) => turns(name)),
    [80, 80, 80, 80, 80, 80, 80],
  )
})

test('limits of the last stage apply to the final evaluation rl', () => {
  const one = { ...recipe, reinforce: { stages: [{ name: 'early' }] } }
  assert.deepEqual(
    ['early-0001', 'rl', 'rl.may', 'base'].map((name) => turns(name, one)),
    [40, 40, 40, 80],
  )
})

test('a recipe from before limits, or without stages, has the same limits everywhere', () => {
  const old = { evaluate: { maxTurns: 6, context: 640 }, rft: null, reinforce: null }
  assert.deepEqual(
    ['base', 'rl', 'dapo-1-0001', 'nightly'].map((name) => turns(name, old)),
    [6, 6, 6, 6],
  )
})

test('limits can be set for exactly the evaluations of a run', () => {
  assert.deepEqual(limitNames(recipe), ['base', 'rft', 'early', 'late'])
  assert.deepEqual(limitNames({ rft: null, reinforce: null }), ['base'])
})

test('two evaluations have equal limits only when turns and context are both equal', () => {
  const limited = (late: { maxTurns: number; context: number }) =>
    ({ ...recipe, evaluate: { ...recipe.evaluate, limits: { late } } }) as unknown as Recipe
  assert.equal(haveEqualLimits(limited({ maxTurns: 80, context: 131_072 }), 'base', 'rl'), true)
  assert.equal(haveEqualLimits(limited({ maxTurns: 40, context: 131_072 }), 'base', 'rl'), false)
  assert.equal(haveEqualLimits(limited({ maxTurns: 80, context: 65_536 }), 'base', 'rl'), false)
})

test('a reinforce stage must not have a name with another purpose', () => {
  for (const name of ['base', 'rft', 'rl', 'eval-x', 'dapo-0001', 'a.b'])
    assert.equal(isReservedStage(name), true, name)
  for (const name of ['dapo-1', 'dapo-1-003', 'stage2', 'evaluation']) assert.equal(isReservedStage(name), false, name)
})

test('an evaluation that is named like one inside a stage rl is not the final one', () => {
  const one = { ...recipe, reinforce: { stages: [{ name: 'early' }] } }
  assert.equal(turns('rl-0001', one), 80)
})
