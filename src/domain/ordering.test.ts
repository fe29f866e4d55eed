import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { orderByHash, episodeMaterial, seedFrom, turnMaterial } from './hash-order.ts'
import { planJobs, planOneJob, planPairs, splitByTokens, splitIntoMinibatches } from './rewards/minibatches.ts'
import { drawProblems } from './rewards/stage-rules.ts'

const hash = (text: string): string => createHash('sha256').update(text).digest('hex')

test('the seed of a turn is 48 bits of the hash of its identity and does not depend on the run', () => {
  const material = turnMaterial({ recipeSeed: 7, stage: 'dapo-1', iteration: 3, taskId: 'a__b-1', index: 4, turn: 2 })
  assert.equal(material, '7/dapo-1/3/a__b-1/4/2')
  assert.equal(episodeMaterial({ recipeSeed: 7, stage: 'rft', iteration: 1, taskId: 't', index: 0 }), '7/rft/1/t/0')
  assert.equal(seedFrom('ffffffffffff0000'), 2 ** 48 - 1)
  assert.equal(seedFrom(hash('abc')), 0xba7816bf8f01)
})

test('a hash order does not depend on the order of the input', () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.string(), { minLength: 1, maxLength: 30 }), (items) => {
      const order = orderByHash({ items, material: (item) => item, hash })
      assert.deepEqual(orderByHash({ items: [...items].reverse(), material: (item) => item, hash }), order)
      assert.deepEqual([...order].sort(), [...items].sort())
    }),
  )
})

test('rounds the number of mini-batches half up, and makes nearly equal parts with the larger ones first', () => {
  assert.deepEqual(splitIntoMinibatches({ trajectories: 10, batch: 4 }), [4, 3, 3]) // 2.5 → 3
  assert.deepEqual(splitIntoMinibatches({ trajectories: 9, batch: 4 }), [5, 4]) // 2.25 → 2
  assert.deepEqual(splitIntoMinibatches({ trajectories: 1, batch: 128 }), [1])
  assert.deepEqual(splitIntoMinibatches({ trajectories: 0, batch: 128 }), [])
  assert.equal(splitIntoMinibatches({ trajectories: 6548, batch: 64 }).length, 102) // the paper’s 6,548 / 64 = 102.3
})

test('mini-batches contain every trajectory once and differ by at most one, for any numbers', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 5000 }), fc.integer({ min: 1, max: 300 }), (trajectories, batch) => {
      const sizes = splitIntoMinibatches({ trajectories, batch })
      assert.equal(
        sizes.reduce((sum, size) => sum + size, 0),
        trajectories,
      )
      assert.ok(Math.max(...sizes) - Math.min(...sizes) <= 1)
      assert.deepEqual(
        sizes,
        [...sizes].sort((a, b) => b - a),
      )
      assert.ok(Math.min(...sizes) >= 1)
    }),
  )
})

test('splits a long epoch into several jobs whose steps add up to the schedule', () => {
  const plan = planJobs({ trajectories: 6548, batch: 64, epochs: 1, stepsPerJob: 10, maxSteps: null })
  assert.deepEqual([plan.jobs.length, plan.totalSteps, plan.trained], [11, 102, 6548])
  assert.deepEqual(
    plan.jobs.map((job) => job.steps),
    [10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 2],
  )
})

test('several epochs repeat a job’s own file, and a step limit drops the end of the shuffled order', () => {
  const plan = planJobs({ trajectories: 40, batch: 8, epochs: 3, stepsPerJob: 6, maxSteps: null })
  assert.deepEqual(
    plan.jobs.map((job) => job.minibatches),
    [[8, 8], [8, 8], [8]],
  )
  assert.equal(plan.totalSteps, 15)
  const limited = planJobs({ trajectories: 6548, batch: 64, epochs: 1, stepsPerJob: null, maxSteps: 50 })
  // 6,548 = 102·64 + 20: the first 20 of 102 mini-batches hold 65.
  assert.deepEqual([limited.totalSteps, limited.trained], [50, 20 * 65 + 30 * 64])
})

test('no problem repeats within a pass, or within an iteration that spans two passes', () => {
  const pool = Array.from({ length: 7 }, (_, index) => `task-${index}`)
  const draw = (iteration: number) => drawProblems({ pool, recipeSeed: 1, stage: 's', iteration, count: 3, hash })
  const drawn = Array.from({ length: 14 }, (_, index) => draw(index + 1))
  for (const problems of drawn) assert.equal(new Set(problems).size, 3)
  // Six passes over seven tasks are fourteen iterations of three: each task was drawn exactly six times.
  const counts = pool.map((task) => drawn.flat().filter((other) => other === task).length)
  assert.deepEqual(counts, [6, 6, 6, 6, 6, 6, 6])
  assert.deepEqual(draw(5), drawn[4])
  assert.notDeepEqual(drawProblems({ pool, recipeSeed: 2, stage: 's', iteration: 1, count: 7, hash }), draw(1))
})

test('draws all of a pool that is smaller than the iteration', () => {
  const problems = drawProblems({ pool: ['a', 'b'], recipeSeed: 1, stage: 's', iteration: 4, count: 10, hash })
  assert.deepEqual(problems.sort(), ['a', 'b'])
  assert.deepEqual(drawProblems({ pool: [], recipeSeed: 1, stage: 's', iteration: 4, count: 10, hash }), [])
})

test('the step limit of jobs counts epochs, and a plan without trajectories has no job', () => {
  // Ten mini-batches of two epochs; eleven steps pay for five mini-batches.
  const plan = planJobs({ trajectories: 40, batch: 4, epochs: 2, stepsPerJob: null, maxSteps: 11 })
  assert.deepEqual(plan, { jobs: [{ minibatches: [4, 4, 4, 4, 4], steps: 10 }], totalSteps: 10, trained: 20 })
  assert.deepEqual(planJobs({ trajectories: 0, batch: 4, epochs: 2, stepsPerJob: null, maxSteps: null }), {
    jobs: [],
    totalSteps: 0,
    trained: 0,
  })
})

test('trains at least one mini-batch although the step limit is smaller, also per job', () => {
  const limited = planJobs({ trajectories: 8, batch: 4, epochs: 3, stepsPerJob: null, maxSteps: 1 })
  assert.deepEqual([limited.totalSteps, limited.trained], [3, 4])
  const small = planJobs({ trajectories: 8, batch: 4, epochs: 3, stepsPerJob: 1, maxSteps: null })
  assert.deepEqual(
    small.jobs.map(({ steps }) => steps),
    [3, 3],
  )
})

test('a plan that ends at a whole number of jobs has no empty last job', () => {
  const plan = planJobs({ trajectories: 16, batch: 4, epochs: 1, stepsPerJob: 2, maxSteps: null })
  assert.deepEqual(
    plan.jobs.map(({ minibatches }) => minibatches.length),
    [2, 2],
  )
})

test('each pass has its own order, which depends on seed, stage and pass', () => {
  const pool = Array.from({ length: 12 }, (_, index) => `task-${index}`)
  const pass = (iteration: number, recipeSeed = 1, stage = 's') =>
    drawProblems({ pool, recipeSeed, stage, iteration, count: pool.length, hash })
  const orders = [pass(1), pass(2), pass(3), pass(1, 2), pass(1, 1, 't')]
  assert.equal(new Set(orders.map((order) => order.join())).size, orders.length)
  // By hand: the pool in order of its hashes.
  const first = pool.toSorted((a, b) => (hash(`1/s/pass/0/${a}`) < hash(`1/s/pass/0/${b}`) ? -1 : 1))
  assert.deepEqual(pass(1), first)
  const second = pool.toSorted((a, b) => (hash(`1/s/pass/1/${a}`) < hash(`1/s/pass/1/${b}`) ? -1 : 1))
  assert.deepEqual(pass(2), second)
})

test('iterations that end inside a pass draw every task equally often', () => {
  // Two tasks an iteration of three: iterations 1 and 2 end inside passes, and every task comes equally often.
  const pool = ['a', 'b', 'c']
  const drawn = Array.from({ length: 6 }, (_, index) =>
    drawProblems({ pool, recipeSeed: 3, stage: 's', iteration: index + 1, count: 2, hash }),
  )
  for (const problems of drawn) assert.equal(new Set(problems).size, 2)
  assert.deepEqual(
    pool.map((task) => drawn.flat().filter((other) => other === task).length),
    [4, 4, 4],
  )
})

test('a budget of tokens fills mini-batches in order, and an oversized trajectory is alone', () => {
  // The trainer cuts by the same rule and refuses any other: trainer/tests/test_algorithms.py has these very numbers.
  const cut = (...lossTokens: number[]) => splitByTokens({ lossTokens, budget: 6 })
  assert.deepEqual(cut(3, 3, 5, 2, 9, 1), [2, 1, 1, 1, 1])
  assert.deepEqual(cut(7, 1, 5), [1, 2])
  assert.deepEqual(cut(6), [1])
  assert.deepEqual(cut(1, 1, 1, 1, 1, 1, 1), [6, 1])
  assert.deepEqual(cut(), [])
})

test('an iteration is one job of all its mini-batches in all its epochs, or no job without trajectories', () => {
  const plan = planOneJob({ minibatches: [2, 3], epochs: 2 })
  assert.deepEqual(plan, { jobs: [{ minibatches: [2, 3], steps: 4 }], totalSteps: 4, trained: 5 })
  assert.deepEqual(planOneJob({ minibatches: [], epochs: 2 }), { jobs: [], totalSteps: 0, trained: 0 })
})

test('pairs make mini-batches of whole pairs with twice as many trajectories', () => {
  const plan = planPairs({ trajectories: 20, batch: 8, epochs: 1, stepsPerJob: 2, maxSteps: null })
  const pairs = planJobs({ trajectories: 10, batch: 4, epochs: 1, stepsPerJob: 2, maxSteps: null })
  assert.ok(plan.jobs.length > 0)
  assert.deepEqual(
    plan.jobs.map(({ minibatches }) => minibatches),
    pairs.jobs.map(({ minibatches }) => minibatches.map((size) => 2 * size)),
  )
  assert.equal(plan.trained, 2 * pairs.trained)
  assert.deepEqual(
    plan.jobs.flatMap(({ minibatches }) => minibatches).reduce((sum, size) => sum + size, 0),
    plan.trained,
  )
})
