import assert from 'node:assert/strict'
import { test } from 'node:test'
import { useEnvironment } from '../../../test/support/environment.ts'
import { type Attempt, makeEvaluation, makeFacts } from '../../../test/support/evaluation-records.ts'
import type { EpisodeRecord } from '../../contracts/episodes.types.ts'
import { checkComparability, gradedShare } from './comparability.ts'
import { compareEvaluations, pairTasks, toOutcomes } from './comparison.ts'
import { splitByCutoff } from './contamination.ts'
import { summarizeAttempts } from './evaluation-summary.ts'

/** One task for each list, `t0`, `t1`, … */
function evaluation(lists: Attempt[][], attempts = lists[0]?.length ?? 1, turns: number[] = []) {
  return makeEvaluation({
    attempts,
    tasks: lists.map((attempts, index) => ({
      taskId: `t${index}`,
      repo: `r${index}`,
      attempts,
      turns: turns[index] ?? 6,
    })),
  })
}
const close = (actual: number | null | undefined, expected: number): void =>
  assert.ok(typeof actual === 'number' && Math.abs(actual - expected) < 1e-9, `expected ${expected}, got ${actual}`)
const list = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item)

test('one attempt each: reports flips, discordant pairs, McNemar and the error over tasks', () => {
  // 20 tasks: 10 stay resolved, 2 are lost, 8 are gained.
  const before = evaluation([...list(12, [1 as const]), ...list(8, [0 as const])])
  const after = evaluation([...list(10, [1 as const]), ...list(2, [0 as const]), ...list(8, [1 as const])])
  const found = compareEvaluations({ before: before.tasks, after: after.tasks, draws: 500 })
  assert.deepEqual([found.tasks, found.better, found.worse, found.same], [20, 8, 2, 10])
  close(found.difference.mean, 6 / 20)
  // Σd² = 10; variance (10 − 20·0.09) / 19; over √20.
  close(found.difference.sem, Math.sqrt(8.2 / 19 / 20))
  assert.equal(found.before.semOver, 'tasks')
  // 2·(1 + 10 + 45) / 1024; the half of C(10,2) twice less.
  close(found.mcnemar?.exact, 112 / 1024)
  close(found.mcnemar?.midP, (112 - 45) / 1024)
  const { interval } = found.difference
  assert.ok(interval !== null && interval.low < 0 && interval.high > 0.5)
  assert.equal(found.flips.length, 10)
})

test('several attempts: pairs rates by task, largest change first, without McNemar', () => {
  const before = evaluation(
    [
      [1, 0],
      [0, 0],
      [1, 1],
    ],
    2,
    [4, 6, 8],
  )
  const after = evaluation(
    [
      [1, 1],
      [1, 1],
      [1, 1],
    ],
    2,
    [4, 4, 4],
  )
  const found = compareEvaluations({ before: before.tasks, after: after.tasks, draws: 200 })
  assert.equal(found.mcnemar, null)
  assert.deepEqual(
    found.flips.map(({ taskId, difference }) => [taskId, difference]),
    [
      ['t1', 1],
      ['t0', 0.5],
    ],
  )
  // Turns 0, −2, −4: mean −2, sd 2, over √3.
  close(found.effort.turns?.mean, -2)
  close(found.effort.turns?.sem, 2 / Math.sqrt(3))
})

test('leaves out and lists tasks of one side and tasks that a side could not score', () => {
  const before = evaluation([[1], [0], ['infra'], [1]])
  const after = evaluation([[1], [1], [1]])
  const found = compareEvaluations({ before: before.tasks, after: after.tasks, draws: 200 })
  assert.deepEqual([found.tasks, found.onlyBefore, found.onlyAfter, found.unscored], [2, ['t3'], [], ['t2']])
  assert.equal(gradedShare(before), 3 / 4)
})

test('without common tasks there is no interval and no mean', () => {
  const found = compareEvaluations({ before: evaluation([[1]]).tasks, after: [], draws: 200 })
  assert.deepEqual([found.tasks, found.difference.interval, found.mcnemar, found.power], [0, null, null, null])
})

test('more attempts reduce sampling luck only, and the power hint says when tasks are too few', () => {
  // Every task has rate ½ on both sides and k = 2: all spread is luck, so attempts help.
  const lucky = compareEvaluations({
    before: evaluation([...list(10, [1, 0] as Attempt[]), ...list(10, [0, 0] as Attempt[])]).tasks,
    after: evaluation([...list(10, [1, 0] as Attempt[]), ...list(10, [1, 0] as Attempt[])]).tasks,
    draws: 200,
  })
  assert.equal(lucky.power?.attemptsAtLeast, false)
  assert.ok(lucky.power !== null && lucky.power.attempts !== null && lucky.power.attempts >= 1)
  // Half of the tasks surely gained, half surely lost, one more gained: the difference is small and no luck is in it.
  const sure = compareEvaluations({
    before: evaluation([...list(11, [0, 0] as Attempt[]), ...list(10, [1, 1] as Attempt[])]).tasks,
    after: evaluation([...list(11, [1, 1] as Attempt[]), ...list(10, [0, 0] as Attempt[])]).tasks,
    draws: 200,
  })
  assert.equal(sure.power?.attempts, null)
  // n = s²·((1.959964 + 0.841621) / d)²: d = 1/21, s² = (21 − 1/21) / 20.
  const reach = 1.959963984540054 + 0.8416212335729143
  assert.equal(sure.power?.tasks, Math.ceil(((21 - 1 / 21) / 20) * (reach * 21) ** 2))
  // One attempt cannot tell luck from tasks.
  const single = compareEvaluations({
    before: evaluation(list(20, [0 as const])).tasks,
    after: evaluation([...list(2, [1 as const]), ...list(18, [0 as const])]).tasks,
    draws: 200,
  })
  assert.equal(single.power?.attemptsAtLeast, true)
  close(single.power?.smallest, reach * single.difference.sem)
})

test('reports other rows under the same id, other tasks and other settings', () => {
  const before = makeEvaluation({ tasks: ['a', 'b'].map((taskId) => ({ taskId, attempts: [1] })) })
  const after = makeEvaluation({
    attempts: 3,
    tasks: [
      { taskId: 'a', attempts: [1], rowHash: 'other' },
      { taskId: 'c', attempts: [1] },
    ],
  })
  after.suite = 'another suite'
  assert.deepEqual(checkComparability(before, after), {
    otherRows: ['a'],
    onlyBefore: ['b'],
    onlyAfter: ['c'],
    warnings: ['suite: "suite" against "another suit"', 'attempts a task: 1 against 3'],
  })
})

test('splits scores at the cut-off with their own errors, and counts the day itself as after', () => {
  const tasks = [
    { taskId: 'a', repo: 'r', outcomes: [1, 1] as (0 | 1)[], createdAt: '2024-12-31T23:59:59Z' },
    { taskId: 'b', repo: 'r', outcomes: [0, 1] as (0 | 1)[], createdAt: '2025-01-01T00:00:00Z' },
    { taskId: 'c', repo: 'r', outcomes: [0] as (0 | 1)[], createdAt: '2025-03-01 10:00:00' },
    { taskId: 'd', repo: 'r', outcomes: [1] as (0 | 1)[], createdAt: null },
    { taskId: 'e', repo: 'r', outcomes: [], createdAt: '2020-01-01' },
  ]
  const { before, after, unknown } = splitByCutoff({ tasks, cutoff: '2025-01-01' })
  assert.deepEqual([before?.tasks, after?.tasks, unknown?.tasks], [1, 2, 1])
  assert.equal(before?.mean, 1)
  close(after?.mean, 0.25)
  close(after?.sem, 0.25)
})

test('compares money per task in one currency only, and not without prices', () => {
  const prices = (perHour: number) => ({
    currency: 'USD',
    perMillionTokens: null,
    machines: [{ name: 'host', count: 1, perHour }],
  })
  const tasks = [
    { taskId: 'a', attempts: [1 as const] },
    { taskId: 'b', attempts: [0 as const] },
  ]
  const cheap = makeEvaluation({ tasks, prices: prices(1800) }).tasks
  const dear = makeEvaluation({ tasks, prices: prices(3600) }).tasks
  // Both ran for the same 6 s: 3 and 6 in all, half of it each task.
  const { cost } = compareEvaluations({ before: cheap, after: dear, isSameCurrency: true }).effort
  assert.deepEqual([cost?.mean, cost?.sem, cost?.tasks], [1.5, 0, 2])
  assert.equal(compareEvaluations({ before: cheap, after: dear }).effort.cost, null)
  const plain = makeEvaluation({ tasks }).tasks
  assert.equal(compareEvaluations({ before: plain, after: dear, isSameCurrency: true }).effort.cost, null)
})

test('a date without a zone is UTC on every machine', (t) => {
  useEnvironment(t)
  const sides = (TZ: string): (number | undefined)[] => {
    process.env['TZ'] = TZ
    const tasks = ['2024-12-31 23:59:59', '2025-01-01 00:00:00', '2025-01-01T01:00:00+02:00', 'around 2024'].map(
      (createdAt, index) => ({ taskId: `t${index}`, repo: 'r', outcomes: [1 as const], createdAt }),
    )
    const { before, after, unknown } = splitByCutoff({ tasks, cutoff: '2025-01-01' })
    return [before?.tasks, after?.tasks, unknown?.tasks]
  }
  assert.deepEqual(sides('Pacific/Auckland'), [2, 1, 1])
  assert.deepEqual(sides('America/Los_Angeles'), [2, 1, 1])
})

test('one attempt on one side only gives no McNemar, on either side', () => {
  const one = evaluation([[1], [0]]).tasks
  const two = evaluation([
    [1, 1],
    [0, 1],
  ]).tasks
  assert.equal(compareEvaluations({ before: one, after: two, draws: 50 }).mcnemar, null)
  assert.equal(compareEvaluations({ before: two, after: one, draws: 50 }).mcnemar, null)
})

test('effort unknown on one side leaves the task out, and effort unknown in one attempt leaves its mean', () => {
  const tasks = [
    { taskId: 'a', attempts: [1 as const, 0 as const] },
    { taskId: 'b', attempts: [1 as const, 1 as const] },
  ]
  const before = makeEvaluation({ tasks }).tasks
  const after = makeEvaluation({ tasks }).tasks
  const [a, b] = [after[0] ?? assert.fail(), after[1] ?? assert.fail()]
  a.sampledTokens = [null, 100]
  b.sampledTokens = [null, null]
  // Task a: 100 against 60; task b tells nothing.
  const { sampledTokens, promptTokens } = compareEvaluations({ before, after, draws: 50 }).effort
  assert.deepEqual(sampledTokens, { mean: 40, sem: 0, interval: null, tasks: 1 })
  assert.equal(promptTokens, null)
  const back = compareEvaluations({ before: after, after: before, draws: 50 }).effort.sampledTokens
  assert.deepEqual([back?.mean, back?.tasks], [-40, 1])
})

test('effort over two or more tasks has an unbounded interval of Student’s t', () => {
  const turns = (...counts: number[]) => evaluation(list(counts.length, [1 as const]), 1, counts).tasks
  const two = compareEvaluations({ before: turns(4, 4), after: turns(5, 7), draws: 50 }).effort.turns
  // Differences 1 and 3: mean 2, sem 1; t(0.975, 1) = 12.7062.
  assert.deepEqual([two?.mean, two?.sem], [2, 1])
  close(two?.interval?.high, 2 + 12.706204736174694)
  close(two?.interval?.low, 2 - 12.706204736174694)
  const one = compareEvaluations({ before: turns(4), after: turns(5), draws: 50 }).effort.turns
  assert.equal(one?.interval, null)
})

test('lists the tasks of both sides, the common ones in order of text', () => {
  const side = (...ids: string[]) => makeEvaluation({ tasks: ids.map((taskId) => ({ taskId, attempts: [1] })) }).tasks
  const found = compareEvaluations({ before: side('c', 'b', 'a'), after: side('z', 'b', 'c', 'y'), draws: 50 })
  assert.deepEqual([found.tasks, found.onlyBefore, found.onlyAfter], [2, ['a'], ['z', 'y']])
})

test('a task that the later side could not score is unscored too', () => {
  const before = evaluation([[1], [0]])
  const after = evaluation([[1], ['infra']])
  const found = compareEvaluations({ before: before.tasks, after: after.tasks, draws: 50 })
  assert.deepEqual([found.tasks, found.unscored], [1, ['t1']])
})

test('a cut-off group without a scored task has no score', () => {
  const lost = { taskId: 'a', repo: 'r', outcomes: [], createdAt: '2020-01-01' }
  const found = splitByCutoff({ tasks: [lost], cutoff: '2025-01-01' })
  assert.deepEqual(found, { before: null, after: null, unknown: null })
  const scored = { taskId: 'b', repo: 'r', outcomes: [1 as const, 0 as const], createdAt: '2020-01-01' }
  const { before } = splitByCutoff({ tasks: [lost, scored], cutoff: '2025-01-01' })
  assert.deepEqual([before?.tasks, before?.mean], [1, 0.5])
  // One task without spread over tasks: the interval is as wide as one task allows.
  assert.ok(before !== null && before.interval.low < 0.5 && 0.5 < before.interval.high)
})

test('compares paid outcomes beside official ones, or gives null for a side without audits', () => {
  const agreed = { audit: { outcome: 'agrees' as const, reasons: [], detail: null } }
  const tasks = (facts: [Attempt, Partial<EpisodeRecord>][]) =>
    summarizeAttempts({
      planned: facts.map((_, index) => ({ taskId: `t${index}`, repo: `r${index}`, rowHash: 'h', createdAt: null })),
      attempts: 1,
      facts: facts.map(([attempt, fields], index) => makeFacts(attempt, { taskId: `t${index}`, ...fields })),
      prices: null,
      unaudited: 'refuse',
    }).tasks
  const before = tasks([
    [1, agreed],
    [0, {}],
    [0, {}],
  ])
  const after = tasks([
    [1, agreed],
    [1, agreed],
    [1, {}],
  ])
  const found = compareEvaluations({ before, after, draws: 200 })
  close(found.difference.mean, 2 / 3)
  close(found.audited?.difference.mean, 1 / 3)
  assert.equal(found.audited?.difference.tasks, 3)
  close(found.audited?.before.mean, 1 / 3)
  close(found.audited?.after.mean, 2 / 3)
  const older = evaluation([[1], [0], [0]])
  assert.equal(compareEvaluations({ before: older.tasks, after: older.tasks, draws: 200 }).audited, null)
  // One side, or one task, without an audit: nothing to compare.
  assert.equal(compareEvaluations({ before: older.tasks, after, draws: 200 }).audited, null)
  const [first, ...others] = before
  assert.ok(first !== undefined)
  const { audited: _, ...unaudited } = first
  assert.equal(compareEvaluations({ before: [unaudited, ...others], after, draws: 200 }).audited, null)
  const wide = compareEvaluations({ before, after, draws: 200, level: 0.5 }).audited?.difference.interval
  assert.notDeepEqual(wide, found.audited?.difference.interval)
})

const side = (...ids: string[]) => makeEvaluation({ tasks: ids.map((taskId) => ({ taskId, attempts: [1] })) }).tasks

test('orders pairs by their task ids for any order of either side', () => {
  const { shared } = pairTasks(side('c', 'a', 'b'), side('b', 'c', 'a'))
  assert.deepEqual(
    shared.map(([before, after]) => [before.taskId, after.taskId]),
    [
      ['a', 'a'],
      ['b', 'b'],
      ['c', 'c'],
    ],
  )
})

test('turns a pair into the outcomes of one task, clustered by its repository', () => {
  const [pair] = pairTasks(side('a'), side('a')).shared
  assert.ok(pair !== undefined)
  assert.deepEqual(toOutcomes(pair), { taskId: 'a', cluster: 'repo', before: [1], after: [1] })
})
