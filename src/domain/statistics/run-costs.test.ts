import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Spent } from '../../contracts/costs.types.ts'
import type { PriceRecipe } from '../../contracts/recipe.types.ts'
import {
  type EpisodeSpent,
  NOTHING,
  type TrainerSpent,
  addAmounts,
  amountOf,
  attemptCosts,
  contextOf,
  shareTime,
  sumCosts,
  usageOf,
} from './run-costs.ts'
import type { TokenUsage } from '../../contracts/policy.types.ts'

function episode(fields: Partial<EpisodeSpent>): EpisodeSpent {
  return {
    stage: 'dapo-1',
    iteration: 1,
    suite: 'suite',
    taskId: 'a',
    outcome: 'unresolved',
    because: null,
    sandboxes: [],
    gradings: [],
    promptTokens: 1_000_000,
    cachedTokens: null,
    sampledTokens: 100_000,
    startedMs: null,
    endedMs: null,
    ...fields,
  }
}

const trainer = (stage: string, startedMs: number, endedMs: number): TrainerSpent => ({
  stage,
  startedMs,
  endedMs,
  seconds: (endedMs - startedMs) / 1000,
  lostBecause: null,
})

/** Two machines of 1,800 an hour: 1 a second. */
const PRICES: PriceRecipe = {
  currency: 'EUR',
  perMillionTokens: { input: 3, cachedInput: null, output: 10 },
  machines: [{ name: 'host', count: 2, perHour: 1_800 }],
}

test('a sum with an unknown record is a lower bound, and one of unknown records only is unknown', () => {
  assert.deepEqual(addAmounts([amountOf(2), amountOf(null), amountOf(3)]), { total: 5, told: 2, unknown: 1 })
  assert.deepEqual(addAmounts([amountOf(null), NOTHING, amountOf(null)]), { total: null, told: 0, unknown: 2 })
  assert.deepEqual(addAmounts([]), NOTHING)
})

test('machines are paid once for each busy second, also when two stages overlap', () => {
  const episodes = [
    // An iteration from 0 to 10 s, with a gap in it; another stage from 8 to 12 s.
    episode({ startedMs: 0, endedMs: 4_000, outcome: 'resolved' }),
    episode({ taskId: 'b', startedMs: 6_000, endedMs: 10_000 }),
    episode({ stage: 'eval-rl', startedMs: 8_000, endedMs: 12_000, outcome: 'resolved' }),
  ]
  // And training from 20 to 23 s.
  const { stages, whole } = sumCosts({
    prices: PRICES,
    device: 'cpu',
    episodes,
    trainers: [trainer('dapo-1', 20_000, 23_000)],
    gates: [],
  })
  // Tokens: 3 for a million read, 1 for the sampled ones; machines: 8 + 2/2 + 3, and 2 + 2/2.
  const money = stages.map(({ stage, spent }) => [stage, spent.money.total])
  assert.deepEqual(money, [
    ['dapo-1', 2 * 4 + 12],
    ['eval-rl', 4 + 3],
  ])
  assert.equal(whole.spent.money.total, 3 * 4 + 15)
  // Task a was resolved in both stages, and is one task.
  assert.deepEqual([whole.resolvedTasks, whole.perResolvedTask.money], [1, 27])
})

test('without prices there is no cost, and tokens without counts leave their cost unknown', () => {
  const episodes = [episode({ promptTokens: null, sampledTokens: null, outcome: 'resolved' })]
  const rest = { device: null, episodes, trainers: [], gates: [] }
  const free = sumCosts({ prices: null, ...rest }).whole
  assert.deepEqual([free.spent.money, free.perResolvedTask.money], [NOTHING, null])
  const priced = sumCosts({ prices: { ...PRICES, machines: [] }, ...rest }).whole
  assert.deepEqual([priced.spent.money, priced.perResolvedTask.money], [{ total: null, told: 0, unknown: 1 }, null])
})

test('a stage without a resolved task has no cost per resolved task', () => {
  const { whole } = sumCosts({ prices: PRICES, device: 'cuda', episodes: [episode({})], trainers: [], gates: [] })
  assert.ok(Object.values(whole.perResolvedTask).every((share) => share === null))
})

const costOf = (parts: EpisodeSpent[], prices: PriceRecipe | null = PRICES) =>
  sumCosts({ prices, device: 'cpu', episodes: parts, trainers: [], gates: [] })

test('stages that begin together are in the order of their names', () => {
  const { stages } = costOf(['b', 'c', 'a'].map((stage) => episode({ stage, startedMs: 1_000 })))
  assert.deepEqual(
    stages.map(({ stage }) => stage),
    ['a', 'b', 'c'],
  )
})

test('an episode without a start does not make its stage the first', () => {
  const { stages } = costOf([
    episode({ stage: 'a', startedMs: 5_000 }),
    episode({ stage: 'a' }),
    episode({ stage: 'b', startedMs: 1_000 }),
  ])
  assert.deepEqual(
    stages.map(({ stage }) => stage),
    ['b', 'a'],
  )
})

test('an episode without an end does not extend the time of its iteration', () => {
  const { whole } = costOf([
    episode({ startedMs: 0, promptTokens: 0, sampledTokens: 0 }),
    episode({ startedMs: 5_000, endedMs: 6_000, promptTokens: 0, sampledTokens: 0 }),
  ])
  assert.equal(whole.spent.money.total, 1)
})

test('the times of a run without prices cost nothing', () => {
  const { whole } = costOf([episode({ startedMs: 0, endedMs: 1_000 })], null)
  assert.deepEqual(whole.spent.money, NOTHING)
})

test('each stage has its own cost per resolved task, and none without prices', () => {
  const parts = [episode({ outcome: 'resolved' }), episode({ stage: 'eval-rl', outcome: 'resolved', promptTokens: 0 })]
  const costs = (prices: PriceRecipe | null) =>
    costOf(parts, prices).stages.map(({ perResolvedTask }) => perResolvedTask.money)
  // 3 for a million read, 1 for the sampled ones.
  assert.deepEqual(costs({ ...PRICES, machines: [] }), [4, 1])
  assert.deepEqual(costs(null), [null, null])
})

test('tasks of one name in two suites are two tasks', () => {
  const { whole } = costOf(['verified', 'may'].map((suite) => episode({ suite, outcome: 'resolved' })))
  assert.equal(whole.resolvedTasks, 2)
})

test('reasons of lost work are in the order of text', () => {
  const { whole } = costOf(['b', 'c', 'a'].map((because) => episode({ outcome: 'lost', because })))
  assert.deepEqual(
    whole.lost.map(({ because }) => because),
    ['a', 'b', 'c'],
  )
})

/** What was spent of each unit: its total, and how many records do not tell; units of nothing are left out. */
const shown = (spent: Partial<Spent>): Record<string, [number | null, number]> =>
  Object.fromEntries(
    Object.entries(spent)
      .filter(([, { told, unknown }]) => told + unknown > 0)
      .map(([unit, { total, unknown }]) => [unit, [total, unknown]]),
  )

test('reports the costs of a run by gate, by stages in order, and by reasons of lost work', () => {
  const paid = (seconds: number | null, lostBecause: string | null = null) => ({ seconds, lostBecause })
  const { stages: found, whole } = sumCosts({
    prices: PRICES,
    device: 'cpu',
    episodes: [
      episode({
        stage: 'aa',
        startedMs: 50_000,
        endedMs: 52_000,
        outcome: 'resolved',
        sandboxes: [paid(4, 'moved'), paid(6)],
        gradings: [paid(8)],
      }),
      // Begins with stage a, whose name comes before it, and before stage aa; without an end it has no machine.
      episode({ stage: 'b', startedMs: 1_000, outcome: 'open', sandboxes: [paid(null)] }),
      episode({
        stage: 'a',
        endedMs: 9_000,
        outcome: 'lost',
        because: 'Sandbox.Lost',
        sandboxes: [paid(16, 'moved')],
        gradings: [paid(32, 'again')],
      }),
      episode({
        stage: 'a',
        startedMs: 1_000,
        endedMs: 3_000,
        outcome: 'lost',
        because: 'Model.Timeout',
        sampledTokens: null,
      }),
      episode({
        stage: 'a',
        startedMs: 2_000,
        endedMs: 4_000,
        outcome: 'resolved',
        suite: null,
        gradings: [paid(64, 'again'), paid(128)],
      }),
      episode({
        stage: 'a',
        startedMs: 2_000,
        endedMs: 4_000,
        outcome: 'resolved',
        taskId: 'b',
        promptTokens: null,
      }),
    ],
    trainers: [{ ...trainer('aa', 60_000, 61_000), lostBecause: 'killed' }, trainer('aa', 61_000, 63_000)],
    gates: [paid(256, 'engine'), paid(512)],
  })
  assert.deepEqual(
    [...found, whole].map(({ stage, episodes: played, lostEpisodes, openEpisodes, resolvedTasks, spent }) => [
      stage,
      [played, lostEpisodes, openEpisodes, resolvedTasks],
      shown(spent),
    ]),
    [
      ['gate', [0, 0, 0, 0], { gradingSeconds: [768, 0] }],
      [
        'a',
        [4, 2, 0, 2],
        {
          sandboxSeconds: [16, 0],
          gradingSeconds: [224, 0],
          promptTokens: [3_000_000, 1],
          sampledTokens: [300_000, 1],
          money: [8 + 3, 2],
        },
      ],
      [
        'b',
        [1, 0, 1, 0],
        { sandboxSeconds: [null, 1], promptTokens: [1_000_000, 0], sampledTokens: [100_000, 0], money: [4, 1] },
      ],
      [
        'aa',
        [1, 0, 0, 1],
        {
          trainerSeconds: [3, 0],
          sandboxSeconds: [10, 0],
          gradingSeconds: [8, 0],
          promptTokens: [1_000_000, 0],
          sampledTokens: [100_000, 0],
          money: [4 + 2 + 3, 0],
        },
      ],
      [
        'whole run',
        [6, 2, 1, 3],
        {
          trainerSeconds: [3, 0],
          sandboxSeconds: [26, 1],
          gradingSeconds: [1000, 0],
          promptTokens: [5_000_000, 1],
          sampledTokens: [500_000, 1],
          money: [24, 3],
        },
      ],
    ],
  )
  const lost = [
    ['grading', 'engine', 1, { gradingSeconds: [256, 0] }],
    ['episode', 'Model.Timeout', 1, { promptTokens: [1_000_000, 0], sampledTokens: [null, 1] }],
    [
      'episode',
      'Sandbox.Lost',
      1,
      {
        sandboxSeconds: [16, 0],
        gradingSeconds: [32, 0],
        promptTokens: [1_000_000, 0],
        sampledTokens: [100_000, 0],
      },
    ],
    ['grading', 'again', 1, { gradingSeconds: [64, 0] }],
    ['sandbox', 'moved', 1, { sandboxSeconds: [4, 0] }],
    ['trainer', 'killed', 1, { trainerSeconds: [1, 0] }],
  ]
  assert.deepEqual(
    whole.lost.map(({ what, because, count, spent }) => [what, because, count, shown(spent)]),
    lost,
  )
  assert.deepEqual(whole.perResolvedTask, {
    trainerSeconds: 1,
    sandboxSeconds: 26 / 3,
    gradingSeconds: 1000 / 3,
    promptTokens: 5_000_000 / 3,
    sampledTokens: 500_000 / 3,
    money: 8,
  })
})

const milliseconds = fc.integer({ min: 0, max: 1_000_000 })
const maybe = (value: fc.Arbitrary<number>) => fc.option(value, { nil: null })
const stages = fc.constantFrom('rft', 'dapo-1', 'eval-base', 'eval-rl')
const part = fc.record({ seconds: maybe(milliseconds), lostBecause: fc.constantFrom(null, 'infra') })

const episodes = fc.array(
  fc.record({
    stage: stages,
    iteration: fc.integer({ min: 0, max: 2 }),
    taskId: fc.constantFrom('a', 'b', 'c'),
    outcome: fc.constantFrom('resolved', 'unresolved', 'lost', 'open'),
    sandboxes: fc.array(part, { maxLength: 3 }),
    gradings: fc.array(part, { maxLength: 3 }),
    promptTokens: maybe(milliseconds),
    sampledTokens: maybe(milliseconds),
    startedMs: maybe(milliseconds),
    endedMs: maybe(milliseconds),
  }),
  { maxLength: 12 },
)

test('the sum over the stages equals the whole in every unit, and lost work is part of its stage', () => {
  const trainers = fc.array(fc.tuple(stages, milliseconds, milliseconds), { maxLength: 4 })
  fc.assert(
    fc.property(episodes, trainers, fc.array(part, { maxLength: 3 }), (played, trained, gates) => {
      const costs = sumCosts({
        prices: PRICES,
        device: 'cpu',
        episodes: played.map((fields) => episode({ ...fields, because: fields.outcome === 'lost' ? 'infra' : null })),
        trainers: trained.map(([stage, a, b]) => trainer(stage, Math.min(a, b), Math.max(a, b))),
        gates,
      })
      for (const unit of Object.keys(costs.whole.spent) as (keyof Spent)[]) {
        const sum = addAmounts(costs.stages.map(({ spent }) => spent[unit]))
        assert.deepEqual(costs.whole.spent[unit], sum)
      }
      const once = {
        promptTokens: played.map(({ promptTokens }) => promptTokens),
        sandboxSeconds: played.flatMap(({ sandboxes }) => sandboxes.map(({ seconds }) => seconds)),
        gradingSeconds: [...played.flatMap(({ gradings }) => gradings), ...gates].map(({ seconds }) => seconds),
      }
      for (const [unit, values] of Object.entries(once)) {
        const { total, told, unknown } = costs.whole.spent[unit as keyof Spent]
        assert.deepEqual([told + unknown, unknown], [values.length, values.filter((value) => value === null).length])
        if (told > 0)
          assert.equal(
            total,
            values.reduce<number>((sum, value) => sum + (value ?? 0), 0),
          )
      }
      for (const { lost, spent } of costs.stages) {
        for (const unit of [
          'trainerSeconds',
          'sandboxSeconds',
          'gradingSeconds',
          'promptTokens',
          'sampledTokens',
        ] as const) {
          const gone = addAmounts(lost.map((work) => work.spent[unit]))
          assert.ok((gone.total ?? 0) <= (spent[unit].total ?? 0) && gone.unknown <= spent[unit].unknown, unit)
        }
      }
    }),
  )
})

test('the shares of all names add up to the busy time', () => {
  const interval = fc
    .tuple(stages, fc.integer({ min: 0, max: 40 }), fc.integer({ min: 0, max: 40 }))
    .map(([of, a, b]) => ({ of, startedMs: Math.min(a, b), endedMs: Math.max(a, b) }))
  fc.assert(
    fc.property(fc.array(interval, { maxLength: 8 }), (intervals) => {
      const busy = Array.from({ length: 40 }, (_, at) =>
        intervals.some(({ startedMs, endedMs }) => startedMs <= at && at + 1 <= endedMs),
      ).filter(Boolean).length
      const shared = [...shareTime(intervals).values()].reduce((sum, ms) => sum + ms, 0)
      assert.ok(Math.abs(shared - busy) < 1e-9, `${shared} of ${busy}`)
    }),
  )
})

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
