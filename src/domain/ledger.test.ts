import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DISPOSITIONS, type EpisodeRecord } from '../contracts/episodes.types.ts'
import { makeRecord } from '../../test/support/episode-records.ts'
import { type EpisodeFate, selectFatesForRft, selectForReinforce } from './episode-fates.ts'
import type { GroupRule } from './group-selection.ts'
import { buildEvaluationLedger, buildTrainingLedger, sumTotals } from './ledger.ts'
import type { RewardRule } from './rewards.ts'
import { verifyLedger } from './verify-ledger.ts'

const reward: RewardRule = { pass: 1, fail: 0, unsubmitted: 0, penalty: { start: 4, end: 6, min: -0.5 } }
const group: GroupRule = { on: 'shaped', alsoZeroAdvantage: true, minGroupStd: 1e-3, minGroupSize: 2, delta: 1e-6 }
const head = { run: 'r', stage: 's', iteration: 1 }

function makeIteration(): EpisodeRecord[] {
  return [
    makeRecord({ taskId: 'a', index: 0, verdict: 'resolved', turns: 4 }),
    makeRecord({ taskId: 'a', index: 1, turns: 6 }),
    makeRecord({ taskId: 'a', index: 2, disposition: 'infra', verdict: null, failure: 'Sandbox.Lost' }),
    makeRecord({ taskId: 'b', index: 0 }),
    makeRecord({ taskId: 'b', index: 1 }),
    makeRecord({ taskId: 'c', index: 0, verdict: 'could-not-grade' }),
    makeRecord({ taskId: 'c', index: 1, verdict: 'resolved' }),
  ]
}

function trainAll(fates: readonly EpisodeFate[], batch = 'batch-00'): Map<string, string> {
  return new Map(fates.flatMap((fate) => (fate.kind === 'train' ? [[fate.episode, batch] as const] : [])))
}

function makeLedger(records: EpisodeRecord[]) {
  const { fates } = selectForReinforce({ records, reward, group })
  return buildTrainingLedger({ ...head, fates, batchOf: trainAll(fates) })
}

test('an iteration with lost, equal and mixed groups: every episode has one fate and the totals add up', () => {
  const ledger = makeLedger(makeIteration())
  assert.deepEqual(ledger.totals, {
    episodes: 7,
    trained: 2,
    evaluated: 0,
    dropped: { std: 2, few: 1 },
    excluded: { infra: 1, 'could-not-grade': 1 },
  })
})

test('lost siblings leave mean, deviation and count of their group', () => {
  const { fates, groups } = selectForReinforce({ records: makeIteration(), reward, group })
  // Rewards 1 and −0.5: mean 0.25, sd 1.06066; advantages ±0.75 / 1.06066 = ±0.7071.
  const advantages = fates.flatMap((fate) => (fate.kind === 'train' ? [fate.advantage ?? Number.NaN] : []))
  assert.deepEqual(
    advantages.map((advantage) => advantage.toFixed(4)),
    ['0.7071', '-0.7071'],
  )
  assert.deepEqual(
    groups.map(({ taskId, infra, dropped }) => [taskId, infra, dropped]),
    [
      ['a', 1, null],
      ['b', 0, 'std'],
      ['c', 1, 'few'],
    ],
  )
})

test('the order of the records changes nothing', () => {
  const records = makeIteration()
  assert.deepEqual(makeLedger([...records].reverse()), makeLedger(records))
})

test('any mix of endings: fates cover each episode exactly once and the ledger verifies clean', () => {
  const anyRecord = fc.record({
    taskId: fc.constantFrom('a', 'b', 'c'),
    disposition: fc.constantFrom(...DISPOSITIONS),
    verdict: fc.constantFrom('resolved' as const, 'unresolved' as const, 'could-not-grade' as const, null),
    turns: fc.integer({ min: 1, max: 6 }),
  })
  fc.assert(
    fc.property(fc.array(anyRecord, { maxLength: 30 }), fc.boolean(), (fields, rft) => {
      const records = fields.map((field, index) => makeRecord({ ...field, index }))
      const fates = rft
        ? selectFatesForRft({ records, maxPerTask: 2 })
        : selectForReinforce({ records, reward, group }).fates
      assert.deepEqual(fates.map((fate) => fate.episode).sort(), records.map((record) => record.episode).sort())
      const ledger = buildTrainingLedger({ ...head, fates, batchOf: trainAll(fates) })
      const batches = [{ key: 'batch-00', episodes: [...trainAll(fates).keys()] }]
      assert.deepEqual(verifyLedger({ ledgers: [ledger], records, batches, derived: [ledger] }), [])
    }),
  )
})

test('every way to cook the books is listed', () => {
  const records = makeIteration()
  const ledger = makeLedger(records)
  const [first, second] = ledger.entries.filter((entry) => entry.fate === 'trained').map((entry) => entry.episode)
  assert.ok(first !== undefined && second !== undefined)
  const batches = [{ key: 'batch-00', episodes: [first, second] }]
  const kinds = (input: Partial<Parameters<typeof verifyLedger>[0]>) =>
    verifyLedger({ ledgers: [ledger], records, batches, derived: [ledger], ...input }).map(({ kind }) => kind)

  assert.deepEqual(kinds({}), [])
  assert.deepEqual(kinds({ records: [...records, makeRecord({ taskId: 'z' })] }), ['missing'])
  assert.deepEqual(kinds({ records: records.slice(0, -1) }), ['unknown-episode'])
  assert.deepEqual(kinds({ batches: [{ key: 'batch-00', episodes: [first] }] }), ['not-in-batch'])
  assert.deepEqual(kinds({ batches: [...batches, { key: 'batch-01', episodes: [first] }] }), [
    'in-two-batches',
    'trained-unledgered',
  ])
  const twice = { ...ledger, entries: [...ledger.entries, ...ledger.entries.slice(0, 1)] }
  assert.deepEqual(kinds({ ledgers: [twice] }), ['duplicated', 'totals'])
  const laundered = {
    ...ledger,
    entries: ledger.entries.map((entry) =>
      entry.fate === 'excluded' && entry.because === 'infra'
        ? { episode: entry.episode, fate: 'dropped' as const, because: 'std' as const }
        : entry,
    ),
  }
  assert.deepEqual(kinds({ ledgers: [laundered] }), ['other-fate', 'totals'])
})

test('one total of a ledger is off by one: found, whichever it is', () => {
  const records = makeIteration()
  const ledger = makeLedger(records)
  const batches = [
    {
      key: 'batch-00',
      episodes: [...ledger.entries].flatMap((entry) => (entry.fate === 'trained' ? [entry.episode] : [])),
    },
  ]
  const { totals } = ledger
  const wrong = [
    { ...totals, episodes: totals.episodes + 1 },
    { ...totals, trained: totals.trained - 1 },
    { ...totals, evaluated: totals.evaluated + 1 },
    { ...totals, dropped: { ...totals.dropped, std: 1 } },
    { ...totals, dropped: { ...totals.dropped, unresolved: 1 } },
    { ...totals, excluded: { infra: 1 } },
  ]
  for (const made of wrong) {
    const found = verifyLedger({ ledgers: [{ ...ledger, totals: made }], records, batches, derived: [ledger] })
    assert.deepEqual(found, [{ kind: 'totals', stage: 's', iteration: 1 }], JSON.stringify(made))
  }
})

test('an evaluation trains nothing: valid episodes are evaluated, the others keep their reason', () => {
  const ledger = buildEvaluationLedger({ ...head, records: makeIteration(), evaluation: 'eval-base' })
  assert.deepEqual(sumTotals([ledger]), {
    episodes: 7,
    trained: 0,
    evaluated: 5,
    dropped: {},
    excluded: { infra: 1, 'could-not-grade': 1 },
  })
})

test('a kept episode that reached no batch is refused', () => {
  const { fates } = selectForReinforce({ records: makeIteration(), reward, group })
  assert.throws(() => buildTrainingLedger({ ...head, fates, batchOf: new Map() }), { code: 'Ledger.Mismatch' })
})
