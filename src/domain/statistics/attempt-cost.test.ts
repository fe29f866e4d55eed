import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { PriceRecipe } from '../../contracts/recipe.types.ts'
import { attemptCosts } from './attempt-cost.ts'

const TOKENS: PriceRecipe = {
  currency: 'USD',
  perMillionTokens: { input: 3, cachedInput: 0.5, output: 15 },
  machines: [],
}
const at = (startedMs: number | null, endedMs: number | null) => ({ startedMs, endedMs })
const none = at(null, null)

test('cached input tokens have their own price', () => {
  const usage = { promptTokens: 1_000_000, cachedTokens: 600_000, completionTokens: 20_000 }
  // 0.4 M × 3 + 0.6 M × 0.5 + 0.02 M × 15 = 1.2 + 0.3 + 0.3
  assert.deepEqual(attemptCosts([{ usage, ...none }], TOKENS), [1.8])
  const plain = { ...TOKENS, perMillionTokens: { input: 3, cachedInput: null, output: 15 } }
  // 1 M × 3 + 0.02 M × 15
  assert.deepEqual(attemptCosts([{ usage, ...none }], plain), [3.3])
  assert.deepEqual(attemptCosts([{ usage: { ...usage, cachedTokens: null }, ...none }], TOKENS), [3.3])
})

test('an attempt without token counts has no cost where tokens have a price', () => {
  assert.deepEqual(attemptCosts([{ usage: null, ...none }], TOKENS), [null])
})

test('machines are paid while any attempt runs, and shared by the time of each', () => {
  const prices: PriceRecipe = {
    currency: 'EUR',
    perMillionTokens: null,
    machines: [
      { name: 'gpu', count: 2, perHour: 3 },
      { name: 'host', count: 1, perHour: 0 },
    ],
  }
  const facts = [at(0, 1_800_000), at(900_000, 3_600_000), none].map((times) => ({ usage: null, ...times }))
  // One hour of 2 × 3 = 6, over 30 and 45 minutes: 2.4 and 3.6; what never ran costs nothing.
  assert.deepEqual(
    attemptCosts(facts, prices).map((cost) => Number(cost?.toFixed(9))),
    [2.4, 3.6, 0],
  )
})

const MACHINES: PriceRecipe = {
  currency: 'EUR',
  perMillionTokens: null,
  machines: [{ name: 'gpu', count: 1, perHour: 3600 }],
}

test('the machine cost of attempts does not depend on the time of day', () => {
  // 10 s of one unit of money a second.
  const late = 1_700_000_000_000
  assert.deepEqual(
    attemptCosts([{ usage: null, ...at(late, late + 10_000) }], MACHINES).map((cost) => cost?.toFixed(6)),
    ['10.000000'],
  )
})

test('an attempt without a known start or end pays no machine and extends no other time', () => {
  const facts = [at(5000, 15_000), at(null, 60_000), at(1000, null)].map((times) => ({ usage: null, ...times }))
  assert.deepEqual(
    attemptCosts(facts, MACHINES).map((cost) => cost?.toFixed(6)),
    ['10.000000', '0.000000', '0.000000'],
  )
})

test('attempts without duration and machines without a price cost 0', () => {
  const still = [{ usage: null, ...at(7, 7) }]
  assert.deepEqual(attemptCosts(still, MACHINES), [0])
  assert.deepEqual(attemptCosts([{ usage: null, ...none }], MACHINES), [0])
  assert.deepEqual(attemptCosts([{ usage: null, ...at(0, 1000) }], { ...MACHINES, machines: [] }), [0])
})

test('an end before its start costs 0 and refunds nothing', () => {
  const facts = [at(0, 10_000), at(9000, 4000)].map((times) => ({ usage: null, ...times }))
  assert.deepEqual(
    attemptCosts(facts, MACHINES).map((cost) => cost?.toFixed(6)),
    ['10.000000', '0.000000'],
  )
})
