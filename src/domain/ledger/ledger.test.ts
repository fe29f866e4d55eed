import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { DISPOSITIONS, type EpisodeRecord } from '../../contracts/episodes.types.ts'
import { makeRecord } from '../../../test/support/episode-records.ts'
import { type EpisodeFate, selectFatesForRft, selectForReinforce } from './episode-fates.ts'
import type { GroupRule } from '../rewards/group-selection.ts'
import { buildEvaluationLedger, buildTrainingLedger, type Ledger, sumTotals, totalsOf, unpaidIn } from './ledger.ts'
import type { RewardRule } from '../rewards/rewards.ts'
import { verifyLedger } from './verify-ledger.ts'

const reward: RewardRule = {
  pass: 1,
  fail: 0,
  unsubmitted: 0,
  penalty: { start: 4, end: 6, min: -0.5 },
  unaudited: 'allow',
}
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

test('pairs train as chosen and rejected; episodes without a partner or ended by a limit have that reason', () => {
  const records = [
    makeRecord({ taskId: 'a', index: 0, verdict: 'resolved', turns: 5 }),
    makeRecord({ taskId: 'a', index: 1, verdict: 'resolved', turns: 2 }),
    makeRecord({ taskId: 'a', index: 2, turns: 6, disposition: 'turn-limit' }),
    makeRecord({ taskId: 'a', index: 3, turns: 2 }),
    makeRecord({ taskId: 'b', index: 0 }),
    makeRecord({ taskId: 'b', index: 1 }),
  ]
  const [slow, quick, cut, failed] = records.map(({ episode }) => episode)
  const fatesWith = (overlong: 'keep' | 'filter') =>
    selectForReinforce({ records, reward, group: { ...group, on: 'outcome', pairs: true, overlong } }).fates
  const told = (fates: EpisodeFate[]) =>
    Object.fromEntries(
      fates.map((fate) => [fate.episode, fate.kind === 'train' ? [fate.advantage, fate.pair] : fate.reason]),
    )
  const kept = told(fatesWith('keep'))
  assert.deepEqual(
    [kept[quick ?? ''], kept[cut ?? '']],
    [
      [1, quick],
      [-1, quick],
    ],
  )
  assert.deepEqual(
    [kept[slow ?? ''], kept[failed ?? '']],
    [
      [1, slow],
      [-1, slow],
    ],
  )
  assert.equal(kept[records[4]?.episode ?? ''], 'outcome')
  const filtered = told(fatesWith('filter'))
  assert.deepEqual(filtered[cut ?? ''], 'overlong')
  assert.deepEqual(
    [filtered[quick ?? ''], filtered[failed ?? '']],
    [
      [1, quick],
      [-1, quick],
    ],
  )
  assert.equal(filtered[slow ?? ''], 'unpaired')
})

test('only episodes that fine-tuning kept, trained or over its step limit, may be experts in a batch', () => {
  const tuned = [
    makeRecord({ stage: 'rft', iteration: 0, taskId: 'a', index: 0, verdict: 'resolved' }),
    makeRecord({ stage: 'rft', iteration: 0, taskId: 'a', index: 1 }),
  ]
  const fates = selectFatesForRft({ records: tuned, maxPerTask: null, unaudited: 'allow' })
  const place = { run: 'r', stage: 'rft', iteration: 0 }
  const trained = buildTrainingLedger({ ...place, fates, batchOf: trainAll(fates, 'rft') })
  const [kept = '', failed = ''] = tuned.map(({ episode }) => episode)
  const check = (ledger: Ledger, experts: string[]) =>
    verifyLedger({
      ledgers: [ledger],
      records: tuned,
      batches: [
        { key: 'rft', episodes: ledger.entries.flatMap((entry) => (entry.fate === 'trained' ? [entry.episode] : [])) },
        { key: 'dapo', episodes: [], experts },
      ],
      derived: null,
    })
  assert.deepEqual(check(trained, [kept]), [])
  assert.deepEqual(check(trained, [kept, failed]), [{ kind: 'expert-not-kept', episode: failed, batch: 'dapo' }])
  const over = fates.map((fate) =>
    fate.kind === 'train'
      ? { kind: 'dropped' as const, episode: fate.episode, reason: 'over-step-limit' as const }
      : fate,
  )
  assert.deepEqual(check(buildTrainingLedger({ ...place, fates: over, batchOf: new Map() }), [kept]), [])
})

test('an episode that another stage trained is no expert', () => {
  const ledger = makeLedger(makeIteration())
  const episodes = ledger.entries.flatMap((entry) => (entry.fate === 'trained' ? [entry.episode] : []))
  const found = verifyLedger({
    ledgers: [ledger],
    records: makeIteration(),
    batches: [{ key: 'batch-00', episodes, experts: episodes.slice(0, 1) }],
    derived: null,
  })
  assert.deepEqual(found, [{ kind: 'expert-not-kept', episode: episodes[0], batch: 'batch-00' }])
})

test('in an iteration with lost, equal and mixed groups every episode has one fate, and the totals add up', () => {
  const ledger = makeLedger(makeIteration())
  assert.deepEqual(ledger.totals, {
    episodes: 7,
    trained: 2,
    evaluated: 0,
    dropped: { std: 2, few: 1 },
    excluded: { infra: 1, 'could-not-grade': 1 },
  })
})

test('lost siblings do not count in mean, deviation and size of their group', () => {
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

test('any mix of endings has exactly one fate per episode and a ledger that verifies', () => {
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
        ? selectFatesForRft({ records, maxPerTask: 2, unaudited: 'allow' })
        : selectForReinforce({ records, reward, group }).fates
      assert.deepEqual(fates.map((fate) => fate.episode).sort(), records.map((record) => record.episode).sort())
      const ledger = buildTrainingLedger({ ...head, fates, batchOf: trainAll(fates) })
      const batches = [{ key: 'batch-00', episodes: [...trainAll(fates).keys()] }]
      assert.deepEqual(verifyLedger({ ledgers: [ledger], records, batches, derived: [ledger] }), [])
    }),
  )
})

test('reports every way to falsify a ledger', () => {
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

test('reports any total of a ledger that is off by one', () => {
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

test('an evaluation trains nothing: valid episodes are evaluated, and the others keep their reason', () => {
  const ledger = buildEvaluationLedger({ ...head, records: makeIteration(), evaluation: 'eval-base' })
  assert.deepEqual(sumTotals([ledger]), {
    episodes: 7,
    trained: 0,
    evaluated: 5,
    dropped: {},
    excluded: { infra: 1, 'could-not-grade': 1 },
  })
})

test('refuses a kept episode that reached no batch', () => {
  const { fates } = selectForReinforce({ records: makeIteration(), reward, group })
  assert.throws(() => buildTrainingLedger({ ...head, fates, batchOf: new Map() }), {
    code: 'Ledger.Mismatch',
    details: { episode: 'r/s/0001/a/00' },
  })
})

test('ledger entries are in the order of their episodes, not of the fates', () => {
  const fates: EpisodeFate[] = ['e2', 'e10', 'e1'].map((episode) => ({ kind: 'train', episode, advantage: 1 }))
  const ledger = buildTrainingLedger({ ...head, fates, batchOf: trainAll(fates) })
  assert.deepEqual(ledger, {
    schema: 'longhaul.ledger/1',
    ...head,
    entries: ['e1', 'e10', 'e2'].map((episode) => ({ episode, fate: 'trained', batch: 'batch-00' })),
    totals: { episodes: 3, trained: 3, evaluated: 0, dropped: {}, excluded: {} },
  })
})

test('fates are ordered by task and index, so that batches do not depend on the order of records', () => {
  const records = [
    makeRecord({ taskId: 'b', index: 1 }),
    makeRecord({ taskId: 'a', index: 2, verdict: 'resolved', turns: 4 }),
    makeRecord({ taskId: 'b', index: 0, verdict: 'resolved', turns: 4 }),
    makeRecord({ taskId: 'a', index: 10, turns: 6 }),
  ]
  const { fates, groups } = selectForReinforce({ records, reward, group })
  assert.deepEqual(
    fates.map(({ kind, episode }) => `${kind} ${episode.slice(-4)}`),
    ['train a/02', 'train a/10', 'train b/00', 'train b/01'],
  )
  assert.deepEqual(
    groups.map(({ members }) => members.map(({ episode }) => episode.slice(-4))),
    [
      ['a/02', 'a/10'],
      ['b/00', 'b/01'],
    ],
  )
})

test('drops a member without an advantage from a group that trains', () => {
  const records = [4, 5, 6].map((turns, index) => makeRecord({ index, verdict: 'resolved', turns }))
  // Rewards 1, 0.75, 0.5: the middle one is the mean.
  const { fates } = selectForReinforce({ records, reward, group })
  assert.deepEqual(
    fates.map((fate) => [fate.kind, fate.kind === 'dropped' ? fate.reason : null]),
    [
      ['train', null],
      ['dropped', 'zero-advantage'],
      ['train', null],
    ],
  )
})

test('the overlong filter drops an episode that a limit ended, and its reward still centres its group', () => {
  const dispositions = ['submitted', 'turn-limit', 'context-limit', 'time-limit', 'agent-gave-up'] as const
  const records = dispositions.map((disposition, index) =>
    makeRecord({ index, disposition, verdict: index === 0 ? 'resolved' : 'unresolved', turns: 1 }),
  )
  const { fates: all } = selectForReinforce({ records, reward, group })
  const { fates, groups } = selectForReinforce({ records, reward, group: { ...group, overlong: 'filter' } })
  assert.deepEqual(
    fates.map((fate) => (fate.kind === 'dropped' ? fate.reason : fate.kind)),
    ['train', 'overlong', 'overlong', 'overlong', 'train'],
  )
  // Nothing else about those that train has changed.
  assert.deepEqual([fates[0], fates[4]], [all[0], all[4]])
  assert.equal(groups[0]?.members.length, 5)
})

test('without the overlong filter an episode that a limit ended trains like any other', () => {
  const records = [
    makeRecord({ index: 0, verdict: 'resolved', turns: 1 }),
    makeRecord({ index: 1, disposition: 'turn-limit', turns: 1 }),
  ]
  const { fates } = selectForReinforce({ records, reward, group })
  assert.deepEqual(
    fates.map(({ kind }) => kind),
    ['train', 'train'],
  )
})

test('an episode without a partner is dropped', () => {
  const records = [
    makeRecord({ index: 0, verdict: 'resolved' }),
    makeRecord({ index: 1, verdict: 'resolved' }),
    makeRecord({ index: 2 }),
  ]
  const { fates } = selectForReinforce({ records, reward, group: { ...group, on: 'outcome', pairs: true } })
  assert.deepEqual(fates[1], { kind: 'dropped', episode: records[1]?.episode, reason: 'unpaired' })
})

test('rejection fine-tuning trains successes without an advantage, and the others keep their reason', () => {
  const records = [
    makeRecord({ index: 0, verdict: 'resolved' }),
    makeRecord({ index: 1 }),
    makeRecord({ index: 2, disposition: 'infra', verdict: null }),
  ]
  assert.deepEqual(selectFatesForRft({ records, maxPerTask: null, unaudited: 'allow' }), [
    { kind: 'excluded', episode: records[2]?.episode, reason: 'infra' },
    { kind: 'train', episode: records[0]?.episode, advantage: null },
    { kind: 'dropped', episode: records[1]?.episode, reason: 'unresolved' },
  ])
})

test('the ledger of an evaluation names the evaluation and the reason of each exclusion', () => {
  const records = [makeRecord({ index: 0 }), makeRecord({ index: 1, disposition: 'cancelled', verdict: null })]
  const { entries } = buildEvaluationLedger({ ...head, records, evaluation: 'eval-base' })
  assert.deepEqual(entries, [
    { episode: records[0]?.episode, fate: 'evaluated', in: 'eval-base' },
    { episode: records[1]?.episode, fate: 'excluded', because: 'cancelled' },
  ])
})

test('checks each total separately, and reports a reason that only one side counts', () => {
  const records = makeIteration()
  const ledger = makeLedger(records)
  const episodes = [...trainAll(selectForReinforce({ records, reward, group }).fates).keys()]
  const batches = [{ key: 'batch-00', episodes }]
  const found = (totals: Partial<typeof ledger.totals>) =>
    verifyLedger({
      ledgers: [{ ...ledger, totals: { ...ledger.totals, ...totals } }],
      records,
      batches,
      derived: null,
    })
  assert.deepEqual(found({}), [])
  const wrong = [{ kind: 'totals', stage: 's', iteration: 1 }]
  assert.deepEqual(found({ episodes: 8 }), wrong)
  assert.deepEqual(found({ trained: 3 }), wrong)
  assert.deepEqual(found({ evaluated: 1 }), wrong)
  assert.deepEqual(found({ dropped: { std: 2 } }), wrong)
  assert.deepEqual(found({ dropped: { std: 2, few: 1, outcome: 1 } }), wrong)
  assert.deepEqual(found({ excluded: {} }), wrong)
  // Zero is the same as not there.
  assert.deepEqual(found({ dropped: { std: 2, few: 1, outcome: 0 } }), [])
})

test('shows the records of an episode beside its ledger entry, with batch and evaluation', () => {
  const records = [0, 1, 2].map((index) => makeRecord({ index }))
  const [a, b, c] = records.map(({ episode }) => episode)
  assert.ok(a !== undefined && b !== undefined && c !== undefined)
  const ledgerOf = (entries: Ledger['entries']): Ledger => {
    return { schema: 'longhaul.ledger/1', ...head, entries, totals: totalsOf(entries) }
  }
  const told = ledgerOf([
    { episode: c, fate: 'evaluated', in: 'eval-base' },
    { episode: a, fate: 'trained', batch: 'batch-00' },
    { episode: b, fate: 'evaluated', in: 'eval-base' },
  ])
  const derived = ledgerOf([
    { episode: a, fate: 'trained', batch: 'batch-01' },
    { episode: b, fate: 'evaluated', in: 'eval-rl' },
    { episode: c, fate: 'excluded', because: 'infra' },
  ])
  const batches = [{ key: 'batch-00', episodes: [a] }]
  const mismatch = (episode: string, ledger: string, derived: string) => {
    return { kind: 'other-fate', episode, ledger, derived }
  }
  // Sorted, so that two verifications of the same run say the same.
  assert.deepEqual(verifyLedger({ ledgers: [told], records, batches, derived: [derived] }), [
    mismatch(a, 'trained in batch-00', 'trained in batch-01'),
    mismatch(b, 'evaluated in eval-base', 'evaluated in eval-rl'),
    mismatch(c, 'evaluated in eval-base', 'excluded because infra'),
  ])
  // What the derivation does not know is told once, as unknown or missing.
  assert.deepEqual(verifyLedger({ ledgers: [told], records, batches, derived: [] }), [])
})

test('names a batch with an episode that the ledger assigns to another batch', () => {
  const records = [makeRecord()]
  const [{ episode }] = records as [EpisodeRecord]
  const fates: EpisodeFate[] = [{ kind: 'train', episode, advantage: 1 }]
  const ledger = buildTrainingLedger({ ...head, fates, batchOf: trainAll(fates) })
  assert.deepEqual(
    verifyLedger({ ledgers: [ledger], records, batches: [{ key: 'batch-01', episodes: [episode] }], derived: null }),
    [
      { kind: 'not-in-batch', episode, batch: 'batch-00' },
      { kind: 'trained-unledgered', episode, batch: 'batch-01' },
    ],
  )
})

test('marks a resolved episode without a reward under any fate, and refuses a ledger that omits the mark', () => {
  const audit = (outcome: 'agrees' | 'void') => ({ audit: { outcome, reasons: [], detail: null } })
  const records = [
    makeRecord({ index: 0, verdict: 'resolved', ...audit('void') }),
    makeRecord({ index: 1, verdict: 'resolved', ...audit('agrees') }),
    makeRecord({ index: 2, verdict: 'resolved' }),
    makeRecord({ index: 3, verdict: 'resolved', suspectedHack: true, ...audit('agrees') }),
    makeRecord({ index: 4, verdict: 'resolved', disposition: 'infra' }),
  ]
  const unpaid = unpaidIn(records, { grading: { unauditedRewards: 'refuse' } })
  assert.deepEqual([...unpaid.values()], ['audit-void', 'unaudited', 'suspected-hack'])
  assert.equal(unpaidIn(records, {}).size, 0)
  const evaluated = { ...head, records, evaluation: 'nightly' }
  const ledger = buildEvaluationLedger({ ...evaluated, unpaid })
  assert.deepEqual(ledger.totals.unpaid, { 'audit-void': 1, unaudited: 1, 'suspected-hack': 1 })
  assert.deepEqual(
    ledger.entries.map((entry) => entry.unpaid ?? null),
    ['audit-void', null, 'unaudited', 'suspected-hack', null],
  )
  const silent = buildEvaluationLedger(evaluated)
  assert.equal(Object.hasOwn(silent.totals, 'unpaid'), false)
  const kinds = (derived: Ledger) =>
    verifyLedger({ ledgers: [silent], records, batches: [], derived: [derived] }).map(({ kind }) => kind)
  assert.deepEqual(kinds(ledger), ['other-fate', 'other-fate', 'other-fate'])
  assert.deepEqual(kinds(silent), [])
  const [told] = verifyLedger({ ledgers: [silent], records, batches: [], derived: [ledger] })
  assert.ok(told?.kind === 'other-fate')
  assert.equal(told.derived, `${told.ledger}, unpaid: audit-void`)
  const wrong = { ...ledger, totals: { ...ledger.totals, unpaid: { 'audit-void': 3 } } }
  assert.deepEqual(
    verifyLedger({ ledgers: [wrong], records, batches: [], derived: [ledger] }).map(({ kind }) => kind),
    ['totals'],
  )
  const fates = selectFatesForRft({ records, maxPerTask: null, unaudited: 'refuse' })
  const trained = buildTrainingLedger({ ...head, fates, batchOf: trainAll(fates), unpaid })
  assert.deepEqual(trained.totals.unpaid, ledger.totals.unpaid)
})
