import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TokenUsage } from '../../contracts/policy.types.ts'
import { contextOf, usageOf } from './token-usage.ts'

const ids = (count: number): number[] => Array.from({ length: count }, () => 1)
const sampled = (read: number, written: number) => ({ promptDelta: ids(read), ids: ids(written) })
const answered = (usage: TokenUsage | null) => {
  return { promptDelta: [], ids: [], chat: { model: null, ending: 'stop', usage } }
}

test('a token server reads the whole conversation before each sample', () => {
  // First prompt 10, then 5 sampled, a delta of 3, 7 sampled: reads 10 and 10 + 5 + 3 = 18.
  const actions = [sampled(10, 5), sampled(3, 7)]
  assert.deepEqual(usageOf(actions), { promptTokens: 28, cachedTokens: null, completionTokens: 12 })
  assert.equal(contextOf(actions), 25)
})

test('sums the counts of a chat endpoint, and takes the context from the last turn', () => {
  const actions = [
    answered({ promptTokens: 100, cachedTokens: 0, completionTokens: 10 }),
    answered({ promptTokens: 130, cachedTokens: 90, completionTokens: 20 }),
  ]
  assert.deepEqual(usageOf(actions), { promptTokens: 230, cachedTokens: 90, completionTokens: 30 })
  assert.equal(contextOf(actions), 150)
})

test('one turn without a cached count leaves the sum of cached tokens unknown', () => {
  const told = { promptTokens: 10, cachedTokens: 4, completionTokens: 1 }
  const silent = { ...told, cachedTokens: null }
  for (const turns of [
    [told, silent],
    [silent, told],
  ]) {
    assert.deepEqual(usageOf(turns.map(answered)), { promptTokens: 20, cachedTokens: null, completionTokens: 2 })
  }
})

test('one turn without counts leaves the whole unknown instead of estimated', () => {
  const told = { promptTokens: 10, cachedTokens: 4, completionTokens: 1 }
  assert.equal(usageOf([answered(told), answered(null)]), null)
  assert.equal(contextOf([answered(told), answered(null)]), null)
  assert.equal(contextOf([answered(null), answered(told)]), 11)
})

test('an episode without a turn used no tokens', () => {
  assert.deepEqual(usageOf([]), { promptTokens: 0, cachedTokens: 0, completionTokens: 0 })
  assert.equal(contextOf([]), 0)
})

test('the last of three answers gives the context', () => {
  const answer = (promptTokens: number) => answered({ promptTokens, cachedTokens: 0, completionTokens: 1 })
  assert.equal(contextOf([answer(10), answer(20), answer(30)]), 31)
})
