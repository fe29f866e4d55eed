import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { bootstrapInterval } from './bootstrap.ts'
import {
  type TaskOutcomes,
  flakyTasks,
  isWithoutSpread,
  mean,
  meanOverTasks,
  pairedDifference,
  passAt1,
  passAtK,
  passHatK,
  showMean,
  standardDeviation,
  standardError,
} from './statistics.ts'

const close = (actual: number | null | undefined, expected: number) =>
  assert.ok(typeof actual === 'number' && Math.abs(actual - expected) < 1e-9, `expected ${expected}, got ${actual}`)
const makeTasks = (...outcomes: (0 | 1)[][]): TaskOutcomes[] =>
  outcomes.map((list, index) => ({ taskId: `t${index}`, outcomes: list }))

test('one attempt a task gives the binomial standard error with n − 1', () => {
  // 3 of 4: variance 0.75·0.25·4/3 = 0.25, so the error is 0.5 / 2.
  const score = passAt1(makeTasks([1], [1], [1], [0]))
  assert.equal(score.mean, 0.75)
  assert.equal(score.runSem, null)
  close(score.sem, 0.25)
  assert.deepEqual([score.tasks, score.attempts], [4, 4])
})

test('k attempts give the error over runs, with the error over tasks beside it', () => {
  // Runs: 2/3, 1/3 → mean 1/2, sd √(2·(1/6)²) = 0.235702, /√2 = 1/6. Task means 1, 1/2, 0: sd 1/2, /√3.
  const score = passAt1(makeTasks([1, 1], [1, 0], [0, 0]))
  close(score.mean, 0.5)
  close(score.runSem, 1 / 6)
  close(score.taskSem, 0.5 / Math.sqrt(3))
  assert.equal(score.sem, score.runSem)
})

test('reproduces published figures of the leaderboard’s three runs and of the estimator’s examples', () => {
  // 105 tasks; runs of 45, 41 and 47 resolved are 42.9, 39.0 and 44.8 %: published as 42.2 ± 1.7.
  const runs = [45, 41, 47]
  const tasks = makeTasks(
    ...Array.from({ length: 105 }, (_, task) => runs.map((resolved): 0 | 1 => (task < resolved ? 1 : 0))),
  )
  const score = passAt1(tasks)
  assert.equal((100 * score.mean).toFixed(1), '42.2')
  assert.equal((100 * score.sem).toFixed(1), '1.7')
  assert.equal(score.semOver, 'runs')
  const one = (n: number, c: number): TaskOutcomes[] =>
    makeTasks(Array.from({ length: n }, (_, index): 0 | 1 => (index < c ? 1 : 0)))
  close(passAtK({ tasks: one(5, 1), k: 5 })?.mean, 1)
  close(passAtK({ tasks: one(10, 3), k: 1 })?.mean, 0.3)
  // 1 − C(7,5)/C(10,5) = 1 − 21/252; the biased form would say 1 − 0.7⁵ = 0.83193.
  close(passAtK({ tasks: one(10, 3), k: 5 })?.mean, 1 - 21 / 252)
})

test('pass@k has an error over tasks', () => {
  // Per task 5/6 (2 of 4), 0 and 1: mean 11/18, sd √(((4/18)² + (11/18)² + (7/18)²) / 2), over √3.
  const found = passAtK({ tasks: makeTasks([1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]), k: 2 })
  close(found?.mean, 11 / 18)
  close(found?.sem, Math.sqrt((16 + 121 + 49) / 324 / 2) / Math.sqrt(3))
  assert.equal(found?.tasks, 3)
})

test('flaky tasks have mixed outcomes, and the nearest to one half come first', () => {
  assert.deepEqual(flakyTasks(makeTasks([1, 1], [1, 0, 0, 0], [0, 0], [1, 0], [0])), [
    { taskId: 't3', resolved: 1, attempts: 2 },
    { taskId: 't1', resolved: 1, attempts: 4 },
  ])
})

test('a task that lost every attempt is in no mean and has no pair', () => {
  const tasks = [...makeTasks([1], [0]), { taskId: 'lost', outcomes: [] }]
  assert.deepEqual([passAt1(tasks).mean, passAt1(tasks).tasks], [0.5, 2])
  const difference = pairedDifference({ before: tasks, after: tasks })
  assert.deepEqual([difference.tasks, difference.unpaired], [2, 2])
})

test('a lost attempt keeps the weight of its task and makes the error one over tasks', () => {
  const score = passAt1(makeTasks([1], [0, 0]))
  assert.equal(score.mean, 0.5)
  assert.equal(score.runSem, null)
  assert.equal(score.attempts, 3)
})

test('pass@k is the unbiased 1 − C(n−c,k)/C(n,k), and undefined below k attempts', () => {
  // n = 4, c = 2, k = 2: 1 − C(2,2)/C(4,2) = 1 − 1/6; pass^2 = C(2,2)/C(4,2) = 1/6.
  const tasks = makeTasks([1, 1, 0, 0])
  close(passAtK({ tasks, k: 2 })?.mean, 5 / 6)
  close(passHatK({ tasks, k: 2 })?.mean, 1 / 6)
  close(passAtK({ tasks, k: 3 })?.mean, 1) // n − c < k
  assert.equal(passAtK({ tasks, k: 5 }), null)
})

test('pass@1 of pass@k is the mean for any outcomes, and pass@k never falls with k', () => {
  const outcome = fc.constantFrom<0 | 1>(0, 1)
  fc.assert(
    fc.property(
      fc.array(fc.array(outcome, { minLength: 5, maxLength: 5 }), { minLength: 1, maxLength: 8 }),
      (lists) => {
        const tasks = makeTasks(...lists)
        close(passAtK({ tasks, k: 1 })?.mean, passAt1(tasks).mean)
        const curve = [1, 2, 3, 4, 5].map((k) => passAtK({ tasks, k })?.mean ?? Number.NaN)
        for (let k = 1; k < curve.length; k++) assert.ok((curve[k] ?? 0) >= (curve[k - 1] ?? 0) - 1e-12)
      },
    ),
  )
})

test('a difference is taken task by task, clustered by task, and only where both sides have the task', () => {
  const before = makeTasks([0, 0], [1, 0], [1, 1], [0])
  const after = makeTasks([1, 1], [1, 0], [1, 1])
  // Differences 1, 0, 0: mean 1/3, sd 1/√3 = 0.57735, /√3 = 1/3.
  const difference = pairedDifference({ before, after })
  close(difference.mean, 1 / 3)
  close(difference.sem, 1 / 3)
  assert.deepEqual([difference.tasks, difference.better, difference.worse, difference.unpaired], [3, 1, 0, 1])
})

test('the bootstrap interval repeats for a seed, ignores the input order and contains the mean', () => {
  const tasks = Array.from({ length: 60 }, (_, index) => ({
    taskId: `t${index}`,
    cluster: `r${index % 12}`,
    outcomes: [index % 3 === 0 ? 1 : 0] as (0 | 1)[],
  }))
  const interval = bootstrapInterval({ tasks, seed: 1, draws: 2000 })
  assert.deepEqual(bootstrapInterval({ tasks: [...tasks].reverse(), seed: 1, draws: 2000 }), interval)
  assert.ok(interval !== null && interval.low < 1 / 3 && 1 / 3 < interval.high)
  assert.equal(bootstrapInterval({ tasks: [], seed: 1 }), null)
})

test('one attempt per cluster gives an interval about as wide as the binomial one', () => {
  const tasks = Array.from({ length: 100 }, (_, index) => ({
    taskId: `t${index}`,
    cluster: 'one',
    outcomes: [index < 50 ? 1 : 0] as (0 | 1)[],
  }))
  const interval = bootstrapInterval({ tasks, seed: 3, draws: 4000 })
  // 0.5 ± 1.96·0.05 = 0.402 … 0.598
  assert.ok(interval !== null && Math.abs(interval.low - 0.402) < 0.015 && Math.abs(interval.high - 0.598) < 0.015)
})

test('states whether the error is over runs or over tasks', () => {
  assert.deepEqual(
    [passAt1(makeTasks([1], [0])).semOver, passAt1(makeTasks([1, 0], [0, 0])).semOver],
    ['tasks', 'runs'],
  )
  // One task with fewer attempts is enough, whichever it is.
  assert.equal(passAt1(makeTasks([1, 0], [0, 0], [1])).semOver, 'tasks')
  assert.equal(passAt1(makeTasks([1, 0, 1], [0, 0], [1, 1])).semOver, 'tasks')
})

test('tasks without a value are left out of a mean over tasks', () => {
  assert.deepEqual(meanOverTasks([[2, 4], [], [5]]), { mean: 4, sem: 1, tasks: 2 })
  assert.deepEqual(meanOverTasks([]), { mean: 0, sem: 0, tasks: 0 })
})

test('pass@k needs k attempts of every task, and at least one task', () => {
  assert.equal(passAtK({ tasks: makeTasks([1, 0], [1]), k: 2 }), null)
  assert.equal(passHatK({ tasks: makeTasks([1], [1, 1]), k: 2 }), null)
  assert.equal(passAtK({ tasks: [], k: 1 }), null)
})

test('orders flaky tasks of equal rate by their ids', () => {
  const tasks = ['b', 'c', 'a'].map((taskId) => ({ taskId, outcomes: [1, 0] as (0 | 1)[] }))
  assert.deepEqual(
    flakyTasks(tasks).map(({ taskId }) => taskId),
    ['a', 'b', 'c'],
  )
  // A quarter and three quarters are as near to one half; three of eight is nearer.
  const rates = makeTasks([1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0, 0, 0, 0, 0])
  assert.deepEqual(
    flakyTasks(rates).map(({ taskId }) => taskId),
    ['t2', 't0', 't1'],
  )
})

test('counts differences in both directions, and a task without attempts on either side is unpaired', () => {
  const before = makeTasks([0], [1], [1], [0], [])
  const after = makeTasks([1], [0], [0], [], [1])
  const found = pairedDifference({ before, after })
  assert.deepEqual([found.better, found.worse, found.tasks, found.unpaired], [1, 2, 3, 4])
  close(found.mean, -1 / 3)
})

test('no value, or a single one, has no spread, and no value has the mean 0', () => {
  assert.deepEqual([mean([]), standardDeviation([]), standardError([])], [0, 0, 0])
  assert.deepEqual([mean([3]), standardDeviation([3]), standardError([3])], [3, 0, 0])
})

test('divides by n − 1 for two values', () => {
  // Mean 3, squares 1 + 1 over 1: √2, and over √2 for the mean.
  assert.equal(mean([2, 4]), 3)
  assert.ok(Math.abs(standardDeviation([2, 4]) - Math.SQRT2) < 1e-15)
  assert.ok(Math.abs(standardError([2, 4]) - 1) < 1e-15)
})

test('without a task pass@1 is 0 and has no spread', () => {
  const { mean: value, sem, tasks, attempts } = passAt1([])
  assert.deepEqual([value, sem, tasks, attempts], [0, 0, 0, 0])
})

test('shows a mean with its error to three digits or as many as asked for, and one task without', () => {
  assert.equal(showMean({ mean: 0.4838, sem: 0.0441, tasks: 2 }), '0.484 ± 0.044')
  assert.equal(showMean({ mean: 0.4838, sem: 0.0441, tasks: 2 }, 1), '0.5 ± 0.0')
  assert.equal(showMean({ mean: 0.4838, sem: 0, tasks: 1 }), '0.484 (one task: no SEM)')
})

test('values have no spread up to a millionth of a millionth, relative to values above 1', () => {
  assert.deepEqual(
    [
      [0, 1e-12],
      [0, 2e-12],
      [1000, 1000 + 5e-10],
      [1000, 1000 + 2e-9],
    ].map(isWithoutSpread),
    [true, false, true, false],
  )
})
