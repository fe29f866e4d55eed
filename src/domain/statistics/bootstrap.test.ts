import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bootstrapInterval, type ClusteredOutcomes, pairedBootstrapInterval } from './bootstrap.ts'

/** Clusters of one to three tasks whose rates all differ: another order of drawing gives other means. */
const TASKS: ClusteredOutcomes[] = [
  { taskId: 'a', cluster: 'x', outcomes: [1, 0, 0, 0, 0, 0, 0] },
  { taskId: 'b', cluster: 'x', outcomes: [1, 1, 0, 0, 0, 0, 0] },
  { taskId: 'c', cluster: 'x', outcomes: [1, 1, 1, 0, 0, 0, 0] },
  { taskId: 'd', cluster: 'y', outcomes: [1, 1, 1, 1, 0, 0, 0] },
  { taskId: 'e', cluster: 'y', outcomes: [1, 1, 1, 1, 1, 0, 0] },
  { taskId: 'f', cluster: 'z', outcomes: [1, 1, 1, 1, 1, 1, 0] },
]

test('the result does not depend on the order of tasks and clusters, to the last digit', () => {
  const wanted = bootstrapInterval({ tasks: TASKS, seed: 5, draws: 21 })
  const paired = TASKS.map(({ outcomes, ...task }) => ({ ...task, before: [0 as const], after: outcomes }))
  const wantedPair = pairedBootstrapInterval({ tasks: paired, seed: 5, draws: 21 })
  fc.assert(
    fc.property(fc.shuffledSubarray(TASKS, { minLength: TASKS.length }), (tasks) => {
      assert.deepEqual(bootstrapInterval({ tasks, seed: 5, draws: 21 }), wanted)
      const pairs = tasks.map(({ outcomes, ...task }) => ({ ...task, before: [0 as const], after: outcomes }))
      assert.deepEqual(pairedBootstrapInterval({ tasks: pairs, seed: 5, draws: 21 }), wantedPair)
    }),
    { numRuns: 20 },
  )
})

test('another seed draws other samples', () => {
  const of = (seed: number) => bootstrapInterval({ tasks: TASKS, seed, draws: 21 })
  assert.deepEqual(of(5), of(5))
  assert.notDeepEqual(of(5), of(6))
})

test('a task without an attempt counts as unresolved in each draw and keeps the mean finite', () => {
  const tasks: ClusteredOutcomes[] = [{ taskId: 'a', cluster: 'x', outcomes: [] }]
  assert.deepEqual(bootstrapInterval({ tasks, seed: 1, draws: 5 }), { low: 0, high: 0 })
})

test('a higher level gives a wider interval, and level 1 the whole range', () => {
  const at = (level: number) => bootstrapInterval({ tasks: TASKS, seed: 3, draws: 101, level }) ?? assert.fail()
  const [narrow, wide, whole] = [at(0.5), at(0.95), at(1)]
  assert.ok(whole.low <= wide.low && wide.low < narrow.low)
  assert.ok(narrow.high < wide.high && wide.high <= whole.high)
})

test('interpolates as NumPy does, to the last digit', () => {
  // Both draws take one cluster each: np.quantile([1 / 5, 4 / 5], [(1 - 0.95) / 2, 1 - (1 - 0.95) / 2]).
  const tasks = [
    { taskId: 'a', cluster: 'x', before: [0 as const], after: [1, 0, 0, 0, 0] as const },
    { taskId: 'b', cluster: 'y', before: [0 as const], after: [1, 1, 1, 1, 0] as const },
  ]
  assert.deepEqual(pairedBootstrapInterval({ tasks, seed: 8, draws: 2 }), { low: 0.21500000000000002, high: 0.785 })
})
