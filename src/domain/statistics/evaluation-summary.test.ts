import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EpisodeRecord, VerdictKind } from '../../contracts/episodes.types.ts'
import type { PriceRecipe } from '../../contracts/recipe.types.ts'
import { type Attempt, makeFacts } from '../../../test/support/evaluation-records.ts'
import { BOOTSTRAP_DRAWS } from './bootstrap.ts'
import { type AttemptFacts, type SummaryInput, scoreGrading, summarizeAttempts } from './evaluation-summary.ts'

const plan = (...taskIds: string[]): SummaryInput['planned'] =>
  taskIds.map((taskId) => ({ taskId, repo: `repo of ${taskId}`, rowHash: `row of ${taskId}`, createdAt: null }))

const played = (taskId: string, attempts: Attempt[], fields: Partial<EpisodeRecord> = {}): AttemptFacts[] =>
  attempts.map((attempt, index) => makeFacts(attempt, { taskId, index, ...fields }))

function summarize(facts: AttemptFacts[], more: Partial<SummaryInput> = {}) {
  return summarizeAttempts({ planned: plan('a', 'b'), attempts: 2, facts, prices: null, unaudited: null, ...more })
}

const close = (actual: number | null | undefined, expected: number): void =>
  assert.ok(typeof actual === 'number' && Math.abs(actual - expected) < 1e-12, `expected ${expected}, got ${actual}`)

test('lost and ungraded attempts are not scored, are unresolved in the official score, and are counted by cause', () => {
  // a: 1 of 1 with a verdict, b: 1 of 2.
  const found = summarize([...played('a', [1, 'infra']), ...played('b', [1, 0]), ...played('b', ['ungraded'])])
  assert.deepEqual(found.score, { passAt1: 0.75, sem: found.taskSem, tasks: 2, attempts: 2 })
  assert.deepEqual([found.semOver, found.infra, found.couldNotGrade], ['tasks', 1, 1])
  // As harnesses count: a 1 of 2, b 1 of 3, for the one that could not be graded was played again.
  close(found.official.passAt1, 5 / 12)
  assert.deepEqual([found.official.tasks, found.official.attempts], [2, 2])
  assert.deepEqual(
    found.tasks.map(({ taskId, outcomes, lost, replaced }) => [taskId, outcomes, lost, replaced]),
    [
      ['a', [1], 1, undefined],
      ['b', [1, 0], 0, 1],
    ],
  )
  // Rates 1 and ½: sd √(2·¼²) = ¼·√2, over √2.
  close(found.taskSem, 0.25)
  // Rates ½ and ⅓: sd √(2·(1/12)²) = √2/12, over √2.
  close(found.official.sem, 1 / 12)
})

test('every requested attempt is in the official score, also one that was replaced', () => {
  const [cancelled] = played('b', ['infra'])
  assert.ok(cancelled !== undefined)
  const found = summarize([
    ...played('a', ['infra', 'ungraded', 1, 1]),
    ...played('b', [1, 0]),
    { ...cancelled, record: { ...cancelled.record, index: 2, disposition: 'cancelled', failure: null } },
  ])
  assert.equal(found.score.passAt1, 0.75)
  // a 2 of 4; b 1 of 2, for what an operator cancelled was not asked for any more.
  assert.equal(found.official.passAt1, 0.5)
  assert.deepEqual(
    found.tasks.map(({ replaced }) => replaced),
    [2, undefined],
  )
  const ofItsOwn = summarize([...played('a', ['infra', 1, 1]), ...played('b', [1, 1])])
  assert.notDeepEqual(ofItsOwn.official.interval, ofItsOwn.interval)
  // a ⅔, b 1.
  close(ofItsOwn.official.passAt1, 5 / 6)
})

test('an attempt that is lost and not replaced is counted once', () => {
  const found = summarize([...played('a', [1, 'infra']), ...played('b', ['infra', 'infra', 'infra', 1])])
  // a 1 of 2; b asked for two, lost three, got one: 1 of 4.
  assert.equal(found.official.passAt1, 0.375)
  assert.deepEqual(
    found.tasks.map(({ lost, replaced }) => [lost, replaced]),
    [
      [1, undefined],
      [1, 2],
    ],
  )
})

test('a planned task without an episode is listed, not scored, and unresolved in the official score', () => {
  const found = summarize(played('a', [1, 1]))
  assert.deepEqual([found.score.passAt1, found.score.tasks], [1, 1])
  assert.deepEqual([found.official.passAt1, found.official.tasks], [0.5, 2])
  assert.deepEqual([found.tasks[1]?.outcomes, found.tasks[1]?.lost], [[], 2])
  assert.deepEqual([found.tasks[1]?.repo, found.tasks[1]?.rowHash], ['repo of b', 'row of b'])
})

test('a task with more valid attempts than requested has lost none', () => {
  assert.equal(summarize(played('a', [1, 0, 1])).tasks[0]?.lost, 0)
})

test('the official interval equals that of the score unless an attempt was lost', () => {
  const whole = summarize([...played('a', [1, 0]), ...played('b', [1, 1])])
  assert.notEqual(whole.interval, null)
  assert.deepEqual(whole.official.interval, whole.interval)
  const part = summarize([...played('a', [1, 'infra']), ...played('b', [1, 1])])
  assert.equal(part.interval?.high, 1)
  assert.notDeepEqual(part.official.interval, part.interval)
  assert.ok((part.official.interval?.low ?? 1) < 0.75 && 0.75 < (part.official.interval?.high ?? 0))
})

test('the official interval counts lost attempts, also when every task lost and replaced as many', () => {
  const found = summarize(['a', 'b'].flatMap((taskId) => played(taskId, [1, 'infra', 'ungraded'])))
  assert.deepEqual(
    found.tasks.map(({ lost, replaced }) => [lost, replaced]),
    [
      [1, 1],
      [1, 1],
    ],
  )
  assert.ok((found.official.interval?.low ?? 1) < (found.interval?.low ?? 0))
})

test('attempts without any verdict give no score interval and an official score of 0 over all tasks', () => {
  const found = summarize([...played('a', ['infra', 'infra']), ...played('b', ['ungraded', 'infra'])])
  assert.deepEqual([found.score.tasks, found.score.attempts, found.interval, found.bootstrap], [0, 0, null, null])
  assert.deepEqual([found.official.passAt1, found.official.tasks], [0, 2])
  assert.deepEqual([found.sampledTokens, found.wallSeconds], [null, null])
  assert.deepEqual([found.infra, found.couldNotGrade], [3, 1])
})

test('the bootstrap states how it was drawn', () => {
  const { bootstrap } = summarize([...played('a', [1, 0]), ...played('b', [1, 1])])
  assert.deepEqual([bootstrap?.draws, bootstrap?.seed], [BOOTSTRAP_DRAWS, 1])
})

test('pass@k is given for every requested k, as any and as all of k', () => {
  const { passAtK } = summarize([...played('a', [1, 0]), ...played('b', [1, 1])])
  assert.deepEqual(
    passAtK.map(({ k, any, all }) => [k, any?.mean, all?.mean]),
    [
      [1, 0.75, 0.75],
      [2, 1, 0.5],
    ],
  )
})

test('endings, verdicts and reasons are counted over all episodes, in order of text', () => {
  const found = summarize([
    ...played('b', [0], { disposition: 'turn-limit', verdictReason: 'not-submitted' }),
    ...played('a', ['infra']),
    ...played('a', [1], { suspectedHack: true, index: 1 }),
    ...played('b', [0], { verdictReason: 'empty-patch', index: 1 }),
    ...played('b', [0], { verdictReason: 'empty-patch', index: 2 }),
  ])
  assert.deepEqual(Object.entries(found.dispositions), [
    ['infra', 1],
    ['submitted', 3],
    ['turn-limit', 1],
  ])
  assert.deepEqual(Object.entries(found.verdicts), [
    ['none', 1],
    ['resolved', 1],
    ['unresolved', 3],
  ])
  assert.deepEqual(Object.entries(found.reasons), [
    ['empty-patch', 2],
    ['not-submitted', 1],
  ])
  assert.equal(found.suspectedHacks, 1)
})

test('effort is a mean of the means of tasks, and totals cover the valid attempts', () => {
  const facts = [
    ...played('a', [1], { turns: 4, sampledTokens: 40, formatErrorTurns: 1 }),
    ...played('a', [0], { turns: 8, sampledTokens: 80, formatErrorTurns: 2, index: 1 }),
    ...played('b', [1], { turns: 2, sampledTokens: 30 }),
    ...played('b', ['infra'], { turns: 50, sampledTokens: 5000, formatErrorTurns: 9, index: 1 }),
  ]
  const found = summarize(facts)
  // Tasks 6 and 2; 60 and 30 tokens; a turn takes a second in these records.
  assert.deepEqual([found.turns.mean, found.turns.tasks], [4, 2])
  assert.equal(found.sampledTokens?.mean, 45)
  assert.equal(found.wallSeconds?.mean, 4)
  assert.deepEqual(found.totals, {
    turns: 14,
    formatErrorTurns: 3,
    sampledTokens: 150,
    wallSeconds: 14,
    // Half a second each, for the three that were graded.
    gradeSeconds: 1.5,
  })
  assert.equal('promptTokens' in found, false)
  assert.equal('cachedTokens' in found, false)
})

test('means and totals cover only attempts with known tokens and time', () => {
  const facts = [
    ...played('a', [1], { sampledTokens: null }),
    ...played('a', [1], { sampledTokens: 10, index: 1 }),
    ...played('b', [1], { sampledTokens: null }).map((attempt) => ({ ...attempt, wallMs: null })),
  ]
  const found = summarize(facts)
  assert.deepEqual([found.sampledTokens?.mean, found.sampledTokens?.tasks, found.totals.sampledTokens], [10, 1, 10])
  assert.deepEqual([found.wallSeconds?.mean, found.wallSeconds?.tasks, found.totals.wallSeconds], [6, 1, 12])
  assert.deepEqual(found.tasks[1]?.wallSeconds, [null])
})

test('prompt tokens are given when any record counts them, and cached ones only when a record states them', () => {
  const usage = { promptTokens: 100, cachedTokens: null, completionTokens: 5 }
  const facts = [...played('a', [1], { usage }), ...played('a', [0], { index: 1 }), ...played('b', [1], { usage })]
  const found = summarize(facts)
  assert.deepEqual(found.tasks[0]?.promptTokens, [100, null])
  assert.deepEqual([found.promptTokens?.mean, found.totals.promptTokens], [100, 200])
  assert.equal('cachedTokens' in found, false)
  assert.equal('cachedTokens' in found.totals, false)
  const cached = summarize(played('a', [1, 0], { usage: { ...usage, cachedTokens: 60 } }))
  assert.deepEqual([cached.cachedTokens?.mean, cached.totals.cachedTokens], [60, 120])
  assert.deepEqual(cached.tasks[0]?.cachedTokens, [60, 60])
})

const PRICES: PriceRecipe = {
  currency: 'USD',
  perMillionTokens: { input: 1_000_000, cachedInput: null, output: 1_000_000 },
  machines: [],
}

test('costs are given for graded and lost attempts, with the number without token counts', () => {
  // One unit of money a token.
  const usage = (tokens: number) => ({ usage: { promptTokens: tokens, cachedTokens: 0, completionTokens: 0 } })
  const facts = [
    ...played('a', [1], usage(3)),
    ...played('a', [0], { ...usage(5), index: 1 }),
    ...played('b', ['infra'], usage(7)),
    ...played('b', [1], { index: 1 }),
  ]
  const { cost, tasks } = summarize(facts, { prices: PRICES })
  assert.deepEqual([cost?.graded, cost?.lost, cost?.unknown, cost?.prices], [8, 7, 1, PRICES])
  assert.deepEqual([cost?.attempt?.mean, cost?.attempt?.tasks], [4, 1])
  assert.deepEqual(
    tasks.map(({ cost }) => cost),
    [[3, 5], [null]],
  )
})

test('machines are paid from the first prompt to the last end, and without prices there is no cost', () => {
  const prices = { ...PRICES, perMillionTokens: null, machines: [{ name: 'host', count: 2, perHour: 1800 }] }
  const [first, second] = played('a', [1, 0], { turns: 5 })
  assert.ok(first !== undefined && second !== undefined)
  const facts = [first, { ...second, startedMs: 5000 }]
  // 10 s of 2 × 1800 an hour are 10, half of it each.
  const { cost, tasks } = summarize(facts, { prices })
  close(cost?.graded, 10)
  close(tasks[0]?.cost?.[1], 5)
  const plain = summarize(facts)
  assert.equal('cost' in plain, false)
  assert.equal(
    plain.tasks.some((task) => 'cost' in task),
    false,
  )
})

test('verdicts of the gate are counted separately', () => {
  const facts = played('a', [0, 0])
  const [first, ...others] = facts
  assert.ok(first?.verdict !== null && first?.verdict !== undefined)
  const found = summarize([{ ...first, verdict: { ...first.verdict, from: 'gate' } }, ...others])
  assert.equal(found.gradedByGate, 1)
})

test('an attempt without a known start or duration pays no machine', () => {
  const prices = { ...PRICES, perMillionTokens: null, machines: [{ name: 'host', count: 1, perHour: 3600 }] }
  const [first, second, third] = played('a', [1, 0, 1], { turns: 5 })
  assert.ok(first !== undefined && second !== undefined && third !== undefined)
  const facts = [first, { ...second, startedMs: null }, { ...third, wallMs: null }]
  // 5 s at one unit a second, all of it the first attempt's.
  const costs = summarize(facts, { prices, attempts: 3 }).tasks[0]?.cost
  assert.deepEqual(
    costs?.map((cost) => cost?.toFixed(6)),
    ['5.000000', '0.000000', '0.000000'],
  )
})

test('counts no verdict of the gate when there is none', () => {
  assert.equal(summarize([...played('a', [0, 1]), ...played('b', ['infra'])]).gradedByGate, 0)
})

test('records without token counts have no lists of them', () => {
  const { tasks } = summarize(played('a', [1, 0]))
  assert.equal('promptTokens' in (tasks[0] ?? {}), false)
})

test('the audited score covers paid attempts and lists every unpaid resolved one with its reason', () => {
  const audit = (outcome: 'agrees' | 'void' | 'unsupported', detail: string | null = null): Partial<EpisodeRecord> => ({
    audit: { outcome, reasons: outcome === 'void' ? ['canary-passed'] : [], detail },
  })
  const facts = [
    ...played('a', [1], audit('agrees')),
    ...played('a', [1], { ...audit('void', 'test_x'), index: 1 }),
    ...played('b', [1], audit('unsupported')),
    ...played('b', [0], { index: 1 }),
    ...played('c', [1], { ...audit('agrees'), suspectedHack: true }),
    ...played('c', ['infra'], { index: 1 }),
    // Without a verdict there is nothing to pay.
    ...played('d', ['infra', 'infra']),
  ]
  const planned = plan('a', 'b', 'c', 'd')
  const refuse = summarize(facts, { planned, unaudited: 'refuse' })
  // Officially (1 + ½ + 1) / 3, paid (½ + 0 + 0) / 3.
  close(refuse.score.passAt1, 5 / 6)
  close(refuse.audited?.passAt1, 1 / 6)
  assert.deepEqual(refuse.score.audited, { passAt1: refuse.audited?.passAt1, sem: refuse.audited?.sem })
  assert.deepEqual(
    [refuse.audited?.tasks, refuse.audited?.attempts, refuse.audited?.resolved, refuse.audited?.paid],
    [3, 2, 4, 1],
  )
  assert.deepEqual(
    refuse.tasks.map(({ audited }) => audited),
    [[1, 0], [0, 0], [0], []],
  )
  assert.deepEqual(
    refuse.audited?.differences.map(({ taskId, because, reasons, detail }) => [taskId, because, reasons, detail]),
    [
      ['a', 'audit-void', ['canary-passed'], 'test_x'],
      ['b', 'unaudited', [], null],
      ['c', 'suspected-hack', [], null],
    ],
  )
  assert.equal(refuse.audited?.differences[0]?.episode, facts[1]?.record.episode)
  assert.equal(refuse.audited?.unaudited, 0)
  const allow = summarize(facts, { planned, unaudited: 'allow' })
  close(allow.audited?.passAt1, 0.5 / 3 + 0.5 / 3)
  assert.deepEqual([allow.audited?.paid, allow.audited?.unaudited, allow.audited?.differences.length], [2, 1, 2])
  assert.equal(allow.score.passAt1, refuse.score.passAt1)
})

test('the audited score equals the score when everything is paid, and is absent without a rule', () => {
  const agreed = { audit: { outcome: 'agrees' as const, reasons: [], detail: null } }
  const facts = [...played('a', [1, 0], agreed), ...played('b', [1, 1], agreed)]
  const found = summarize(facts, { unaudited: 'refuse' })
  assert.deepEqual(
    [found.audited?.passAt1, found.audited?.sem, found.audited?.interval],
    [found.score.passAt1, found.score.sem, found.interval],
  )
  assert.notEqual(found.interval, null)
  const older = summarize(facts)
  assert.deepEqual([older.audited, older.score.audited, older.tasks[0]?.audited], [undefined, undefined, undefined])
  const part = [...played('a', [1, 1], agreed), ...played('b', [1], agreed), ...played('b', [1], { index: 1 })]
  const differs = summarize(part, { unaudited: 'refuse' })
  assert.notDeepEqual(differs.audited?.interval, differs.interval)
})

test('the interval of the audited score counts unpaid attempts as failed', () => {
  const audit = (outcome: 'agrees' | 'void') => ({ audit: { outcome, reasons: [], detail: null } })
  const facts = [...played('a', [1, 0], audit('agrees')), ...played('b', [1, 1], audit('void'))]
  const { audited } = summarize(facts, { unaudited: 'refuse' })
  assert.deepEqual(audited?.interval, summarize([...played('a', [1, 0]), ...played('b', [0, 0])]).interval)
})

test('attempts without any verdict give the audited score no interval', () => {
  const { audited } = summarize(played('a', ['infra', 'ungraded']), { unaudited: 'refuse' })
  assert.deepEqual([audited?.interval, audited?.tasks], [null, 0])
})

const patch = (taskId: string, kind: VerdictKind) => ({ taskId, repo: 'r', kind })

test('patches without a verdict are not in the graded score and are unresolved in the official one', () => {
  const { graded, official } = scoreGrading(
    [patch('a', 'resolved'), patch('b', 'unresolved'), patch('c', 'could-not-grade')],
    [],
  )
  assert.deepEqual([graded?.mean, graded?.tasks, graded?.attempts], [0.5, 2, 2])
  assert.deepEqual([official?.tasks, official?.attempts], [3, 3])
  assert.ok(Math.abs((official?.mean ?? 0) - 1 / 3) < 1e-12)
})

test('a task without a patch counts as unresolved, in the official score only', () => {
  const { graded, official } = scoreGrading([patch('a', 'resolved')], [{ taskId: 'missing', repo: 'r' }])
  assert.deepEqual([graded?.mean, graded?.tasks], [1, 1])
  assert.deepEqual([official?.mean, official?.tasks], [0.5, 2])
})

test('several patches of one task are its attempts: the task counts once, and errors are over tasks', () => {
  const { graded } = scoreGrading([patch('a', 'resolved'), patch('a', 'unresolved'), patch('b', 'unresolved')], [])
  // Rates ½ and 0: mean ¼, sd √(2·(¼)²) = ¼·√2, over √2 = ¼.
  assert.deepEqual([graded?.mean, graded?.tasks, graded?.attempts], [0.25, 2, 3])
  assert.ok(Math.abs((graded?.sem ?? 0) - 0.25) < 1e-12)
})

test('the interval contains the mean and is wider for tasks of one repository than of many', () => {
  const judged = (repoOf: (index: number) => string) =>
    scoreGrading(
      Array.from({ length: 40 }, (_, index) => ({
        taskId: `t${index}`,
        repo: repoOf(index),
        kind: index < 20 ? ('resolved' as const) : ('unresolved' as const),
      })),
      [],
    ).graded?.interval ?? assert.fail()
  const apart = judged((index) => `r${index}`)
  // Four repositories that went all one way: little more than four observations.
  const alike = judged((index) => `r${Math.floor(index / 10)}`)
  assert.ok(apart.low < 0.5 && 0.5 < apart.high)
  assert.ok(alike.high - alike.low > 1.5 * (apart.high - apart.low))
})

test('an ungraded run has no score instead of a score of 0', () => {
  assert.deepEqual(scoreGrading([], []), { graded: null, official: null })
  assert.equal(scoreGrading([patch('a', 'could-not-grade')], []).graded, null)
})

test('each missing task has its own weight', () => {
  const missing = ['m1', 'm2'].map((taskId) => ({ taskId, repo: 'r' }))
  const { official } = scoreGrading([patch('a', 'resolved'), patch('b', 'resolved')], missing)
  assert.deepEqual([official?.mean, official?.tasks], [0.5, 4])
})
