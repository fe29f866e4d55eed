import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isLonghaulError } from '../contracts/errors.ts'
import type { EvaluationRecord } from '../contracts/evaluations.types.ts'
import { NEUTRAL_SAMPLING } from '../contracts/neutral-sampling.ts'
import { makeRecord } from '../../test/support/episode-records.ts'
import { makeEvaluation } from '../../test/support/evaluation-records.ts'
import { sumCosts } from '../domain/statistics/run-costs.ts'
import { pairedDifference } from '../domain/statistics/statistics.ts'
import { gatherFlagged, type ReportData } from './report-data.ts'
import { renderHtmlReport } from './html-report.ts'
import { type JsonReport, renderJsonReport } from './json-report.ts'
import { renderTextReport } from './text-report.ts'
import { showDuration } from './tables.ts'

/** The first `solved` of `of` tasks are resolved. */
function evaluation(name: string, solved: number, of: number): EvaluationRecord {
  const tasks = Array.from({ length: of }, (_, index) => ({
    taskId: `task-${index}`,
    repo: `repo-${index}`,
    attempts: [index < solved ? 1 : 0] as (0 | 1)[],
  }))
  return makeEvaluation({ run: 'demo-2026-11-20-a', name, policy: `v00000${solved}-1a2b3c4d`, tasks })
}

function report(changes: Partial<ReportData> = {}): ReportData {
  const evaluations = changes.evaluations ?? structuredClone(DEMO)
  const paired = evaluations.flatMap((before, index) =>
    evaluations.slice(index + 1).map((after) => {
      const difference = pairedDifference({ before: before.tasks, after: after.tasks })
      const { mean, sem } = difference
      const interval = { low: mean - 2 * sem, high: mean + 2 * sem }
      return { before: before.name, after: after.name, ...difference, interval }
    }),
  )
  return {
    run: 'demo-2026-11-20-a',
    kind: 'train',
    recipe: { name: 'demo', hash: 'ab'.repeat(32), seed: 1, base: '../policies/demo-base' },
    evaluations,
    paired,
    curve: evaluations.map(({ name, score, taskSem }, index) => ({
      kind: 'evaluation',
      label: name,
      globalStep: index * 15,
      mean: score.passAt1,
      sem: taskSem,
      tasks: score.tasks,
      attempts: 1,
    })),
    training: [],
    costs: sumCosts({ prices: null, device: 'cpu', episodes: [], trainers: [], gates: [] }),
    lineage: { recipeSha256: 'ab'.repeat(32), code: [], evaluations: [], policies: [] },
    ledger: {
      totals: { episodes: 976, trained: 440, evaluated: 384, dropped: { unresolved: 140 }, excluded: { infra: 12 } },
      mismatches: 0,
    },
    flagged: { signs: [], suspected: [], total: 0 },
    cutoff: null,
    suites: [],
    refused: [],
    durations: { gate: 48.2, rft: 125, rl: 4_000 },
    versions: { longhaul: '0.1.0', node: 'v24.0.0' },
    ...changes,
  }
}

/** Made once: an interval takes ten thousand resamples. */
const DEMO = [evaluation('base', 26, 128), evaluation('rft', 60, 128), evaluation('rl', 63, 128)]

test('the table shows each score with n, k, SEM and interval, and the ledger', () => {
  const text = renderTextReport(report())
  // 26/128 = 0.203; sd = √(128/127 · 0.2031 · 0.7969) = 0.4039; / √128 = 0.0357.
  assert.match(text, /^base +v0000026-1a2b3c4d +0\.203 ± 0\.036 +0\.\d+ to 0\.\d+ +128 +1  tasks /m)
  assert.match(
    text,
    /^rft − base +\+0\.266 ± 0\.039 +\+0\.187 to \+0\.344 +128 +34 +0 +better: the 95 % interval is above 0$/m,
  )
  assert.match(text, /^dropped: unresolved +140$/m)
  assert.match(text, /^all +976$/m)
})

test('calls a gain whose interval contains 0 not proven', () => {
  // 3 of 128 tasks more: +0.023 ± 0.013.
  const text = renderTextReport(report())
  assert.match(text, /^rl − rft +\+0\.023 ± 0\.013 .* not proven/m)
  assert.match(text, /A gain of rl over rft is not proven by 128 tasks/)
  assert.doesNotMatch(text, /A gain of rft over base is not proven/)
})

test('states a loss plainly', () => {
  const text = renderTextReport(report({ evaluations: [evaluation('base', 60, 128), evaluation('rft', 20, 128)] }))
  assert.match(text, /rft is worse than base \(−0\.313\): this run did not learn there\./)
})

test('marks a ledger that does not add up in the table and on the page', () => {
  const { ledger } = report()
  const broken = report({ ledger: { ...ledger, mismatches: 2 } })
  assert.match(renderTextReport(broken), /DOES NOT ADD UP: 2 mismatches/)
  assert.match(renderHtmlReport(broken), /does not add up \(2\)/)
})

test('JSON has the documented keys, with stages in order', () => {
  const json = JSON.parse(renderJsonReport(report())) as JsonReport
  assert.deepEqual(
    json.stages.map(({ name, tasks, attempts }) => [name, tasks, attempts]),
    [
      ['base', 128, 1],
      ['rft', 128, 1],
      ['rl', 128, 1],
    ],
  )
  assert.equal(json.stages[0]?.passAt1, 26 / 128)
  assert.deepEqual(json.ledger.dropped, { unresolved: 140 })
  assert.equal(json.durations['rft'], 125)
  assert.deepEqual(
    json.paired.map(({ verdict }) => verdict),
    ['gain', 'gain', 'not-proven'],
  )
})

test('evaluations under other limits are marked in rows, comparisons and JSON', () => {
  const limited = (name: string, solved: number, maxTurns: number): EvaluationRecord => {
    const limits = {
      maxTurns,
      contextTokens: maxTurns * 100,
      maxTokensPerTurn: 50,
      commandTimeoutMs: 1000,
      episodeTimeoutMs: 1000,
      turnsPerStep: 8,
    }
    const made = evaluation(name, solved, 128)
    return {
      ...made,
      conditions: { scaffold: 'demo', demonstration: false, sampling: NEUTRAL_SAMPLING, limits, gradingProfiles: [] },
    }
  }
  const alike = report({ evaluations: [limited('base', 20, 40), limited('rl', 60, 40)] })
  assert.match(renderTextReport(alike), /Limits of each attempt: 40 turns, 4000 tokens\./)
  assert.doesNotMatch(renderTextReport(alike), /compares other limits/)
  const mixed = report({ evaluations: [limited('base', 20, 80), limited('rft', 40, 40), limited('rl', 60, 80)] })
  for (const text of [renderTextReport(mixed), renderHtmlReport(mixed)]) {
    assert.match(text, /Limits of an attempt differ/)
    assert.match(text, /rl − rft compares other limits too: 80 turns, 8000 tokens against 40 turns, 4000 tokens\./)
    assert.doesNotMatch(text, /rl − base compares/)
  }
  const json = JSON.parse(renderJsonReport(mixed)) as JsonReport
  assert.deepEqual(
    json.stages.map(({ limits }) => limits?.maxTurns),
    [80, 40, 80],
  )
})

test('the page contains no script, fetches nothing and has reproducible bytes', () => {
  const html = renderHtmlReport(report())
  assert.equal(html, renderHtmlReport(report()))
  assert.doesNotMatch(html, /<script|javascript:|src=|href=|url\(|@import|https?:/i)
  assert.match(html, /default-src 'none'/)
  assert.match(html, /<svg viewBox/)
})

const RENDERERS = [renderTextReport, renderHtmlReport, renderJsonReport]

test('property: no renderer shows a mean without n, k or SEM', () => {
  const notANumber = fc.constantFrom(undefined, null, Number.NaN, Number.POSITIVE_INFINITY)
  const broken = fc.oneof(
    fc.record({ field: fc.constantFrom('passAt1', 'sem', 'tasks', 'attempts'), value: notANumber }),
    fc.record({ field: fc.constantFrom('tasks', 'attempts'), value: fc.constantFrom(0, -1, 1.5) }),
    fc.record({ field: fc.constant('sem'), value: fc.double({ max: -Number.MIN_VALUE, noNaN: true }) }),
  )
  fc.assert(
    fc.property(broken, fc.nat(2), fc.constantFrom(...RENDERERS), ({ field, value }, which, render) => {
      const data = report()
      const chosen = data.evaluations[which]
      assert.ok(chosen)
      chosen.score = { ...chosen.score, [field]: value }
      assert.throws(
        () => render(data),
        (error) => isLonghaulError(error) && error.code === 'Report.Incomplete',
      )
    }),
  )
})

test('property: neither page nor JSON shows any other mean without its error', () => {
  const spoil: ((one: EvaluationRecord) => void)[] = [
    (one) => (one.official.sem = Number.NaN),
    (one) => (one.official.tasks = 0),
    (one) => (one.turns.sem = -1),
    (one) => (one.sampledTokens = { mean: Number.POSITIVE_INFINITY, sem: 1, tasks: 3 }),
    (one) => (one.wallSeconds = { mean: 1, sem: Number.NaN, tasks: 3 }),
    (one) => (one.passAtK = [{ k: 1, any: { mean: 1, sem: Number.NaN, tasks: 3 }, all: null }]),
  ]
  const renderers = [renderHtmlReport, renderJsonReport]
  fc.assert(
    fc.property(fc.constantFrom(...spoil), fc.nat(2), fc.constantFrom(...renderers), (spoilOne, which, render) => {
      const data = report()
      const chosen = data.evaluations[which]
      assert.ok(chosen)
      // Several attempts, so that pass@k is shown at all.
      chosen.attempts = 2
      spoilOne(chosen)
      assert.throws(
        () => render(data),
        (error) => isLonghaulError(error) && error.code === 'Report.Incomplete',
      )
    }),
  )
})

test('a page of several attempts shows pass@k, flaky tasks and both sides of the cut-off', () => {
  const evaluations = [
    makeEvaluation({
      name: 'base',
      tasks: [
        { taskId: 'old', createdAt: '2023-01-01', attempts: [1, 1, 1] },
        { taskId: 'new', createdAt: '2025-05-01', attempts: [1, 0, 0] },
        { taskId: 'lost', attempts: [0, 0, 'infra'] },
      ],
    }),
  ]
  const html = renderHtmlReport(report({ evaluations, cutoff: '2024-06-01' }))
  const cells = html.replaceAll(/<[^>]+>/g, '|').replaceAll(/\|[|\s]*/g, '|')
  // Rates 1, 1/3, 0: pass@2 is 1, 2/3, 0; lost has two graded attempts, so that pass@3 is undefined.
  assert.match(cells, /\|base\|2\|0\.556 ± 0\.294\|/)
  assert.match(cells, /\|base\|3\|–\|–\|0\|/)
  assert.match(cells, /\|base\|new\|1 of 3\|/)
  assert.match(cells, /1 of 9\|/)
  assert.match(cells, /\|base\|1\.000 \(one task: no SEM\) \([^|]*\|1\|0\.333 \(one task/)
})

test('property: any text adds no markup to the page and no control characters to the table', () => {
  const plain = renderHtmlReport(report({ refused: [{ taskId: 'x', reason: 'x' }] }))
  const tags = (html: string): string[] => html.match(/<[^>]*>/g) ?? []
  const hostile = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom(
      '<script>alert(1)</script>',
      '"><img onerror=x>',
      '\u001b[31m',
      '\u202Eevil',
      "' onload='x",
      '</title>',
    ),
  )
  fc.assert(
    fc.property(hostile, (text) => {
      const data = report({ run: text, refused: [{ taskId: text, reason: text }] })
      data.recipe = { ...data.recipe, name: text, base: text, hash: text }
      assert.deepEqual(tags(renderHtmlReport(data)), tags(plain))
      assert.doesNotMatch(
        renderTextReport({ ...data, evaluations: data.evaluations.map((one) => ({ ...one, name: text })) }),
        /(?!\n)[\p{Cc}\u202E]/u,
      )
    }),
  )
})

test('shows durations in readable units', () => {
  assert.deepEqual([0.25, 59.9, 60, 725.4, 12_000].map(showDuration), [
    '0.3 s',
    '59.9 s',
    '1 min 00 s',
    '12 min 05 s',
    '3 h 20 min',
  ])
})

test('names suspected hacks beside their disposition in text, page and JSON, with the lost reward', () => {
  const records = [
    makeRecord({ index: 0, verdict: 'resolved', suspectedHack: true, signs: ['conftest', 'network-attempt'] }),
    makeRecord({ index: 1, signs: ['network-attempt'] }),
    makeRecord({ index: 2, verdict: 'resolved' }),
  ]
  const flagged = gatherFlagged(records, 100)
  assert.deepEqual(flagged.signs, [
    { sign: 'conftest', episodes: 1, resolved: 1 },
    { sign: 'network-attempt', episodes: 2, resolved: 1 },
  ])
  const data = report({ flagged })
  assert.match(
    renderTextReport(data),
    /^r\/s\/0001\/t\/00 +submitted, suspected-hack +resolved +conftest, network-attempt$/m,
  )
  assert.match(renderHtmlReport(data), /<td>submitted, suspected-hack<\/td><td>resolved<\/td>/)
  assert.match(renderHtmlReport(data), /<td>conftest<\/td><td>[^<]+<\/td><td>taken: suspected hack<\/td>/)
  assert.equal((JSON.parse(renderJsonReport(data)) as JsonReport).flagged.total, 1)
  assert.doesNotMatch(renderHtmlReport(report()), /suspected-hack/)
})

test('counts suspected hacks beyond the named ones', () => {
  const records = [0, 1, 2].map((index) => makeRecord({ index, suspectedHack: true, signs: ['conftest'] }))
  assert.match(renderTextReport(report({ flagged: gatherFlagged(records, 2) })), /The first 2 of 3\./)
})

test('states no cost without prices in the recipe', () => {
  const page = renderHtmlReport(report())
  assert.doesNotMatch(page, /cost|USD/i)
  const prices = { currency: 'USD', perMillionTokens: null, machines: [{ name: 'host', count: 1, perHour: 3600 }] }
  const tasks = [
    { taskId: 'a', attempts: [1 as const] },
    { taskId: 'b', attempts: [0 as const] },
  ]
  const priced = renderHtmlReport(report({ evaluations: [makeEvaluation({ tasks, prices })], paired: [], curve: [] }))
  // 6 s at one a second, shared by two attempts of which one resolved.
  assert.match(priced, /3\.0000 ± 0\.0000.*6\.0000.*0\.0000.*6\.0000 \/ 1.*USD/)
})

test('shows costs by stage, for the run, per resolved task and of lost work, and marks unknown ones', () => {
  const spent = {
    stage: 'rft',
    iteration: 0,
    suite: 's',
    sandboxes: [{ seconds: 90, lostBecause: null }],
    gradings: [{ seconds: null, lostBecause: null }],
    promptTokens: 1_000_000,
    cachedTokens: null,
    sampledTokens: 1_000,
    startedMs: 0,
    endedMs: 1_000,
  }
  const costs = sumCosts({
    prices: { currency: 'EUR', perMillionTokens: { input: 2, cachedInput: null, output: 0 }, machines: [] },
    device: 'cuda',
    episodes: [
      { ...spent, taskId: 'a', outcome: 'resolved', because: null },
      { ...spent, taskId: 'b', outcome: 'lost', because: 'infra: Sandbox.Lost', promptTokens: null },
    ],
    trainers: [{ stage: 'rft', seconds: 60, lostBecause: 'killed', startedMs: 0, endedMs: 60_000 }],
    gates: [],
  })
  const html = renderHtmlReport(report({ costs }))
  const row = (...cells: string[]): string => `<tr>${cells.map((cell) => `<td[^>]*>${cell}</td>`).join('')}</tr>`
  const values = ['60.0', '180.0', 'unknown', '≥ 1000000 \\(1 unknown\\)', '2000', '≥ 2.0000 \\(1 unknown\\)']
  const shares = ['60.0', '180.0', 'unknown', '≥ 1000000.0 \\(1 unknown\\)', '2000.0', '≥ 2.0000 \\(1 unknown\\)']
  assert.match(html, /trainer GPU s/)
  for (const name of ['rft', 'whole run']) {
    assert.match(html, new RegExp(row(name, ...values, '2', '1', '0')))
    assert.match(html, new RegExp(row(name, '1', ...shares)))
  }
  assert.match(
    html,
    new RegExp(row('rft', 'episode', 'infra: Sandbox.Lost', '1', '–', '90.0', 'unknown', 'unknown', '1000')),
  )
  assert.match(html, new RegExp(row('rft', 'trainer', 'killed', '1', '60.0', '–', '–', '–', '–')))
  assert.match(html, /EUR: a million tokens 2 read, 2 cached, 0 sampled/)
})

test('lists training jobs with their worst steps and each alarm with its value and limit', () => {
  const quiet = { loss: 0.2, grad_norm: 0.5, k3: 0.001, ess: 0.99, is_mean: 1, clip_low: 0.01, clip_high: 0.02 }
  const job = { schema: 'longhaul.training/1', stage: 'dapo-1', slice: 0, policy: 'v000001-1a2b3c4d' } as const
  const { training, ...rest } = report()
  const html = renderHtmlReport({
    ...rest,
    training: [
      ...training,
      { ...job, iteration: 1, steps: [quiet, { ...quiet, ess: 0.8 }], alarms: [] },
      {
        ...job,
        iteration: 2,
        steps: [{ ...quiet, k3: 0.23 }],
        alarms: [{ step: 1, metric: 'k3', value: 0.23, limit: 0.1, side: 'above' }],
      },
    ],
  })
  assert.match(html, /dapo-1 1<.*?>2<.*?0\.800.*?0\.0300/s)
  assert.match(html, /dapo-1 2<.*?k3 is 0\.23, above 0\.1, at optimizer step 1/s)
})

test('shows audited scores beside official ones with each difference, and none for older runs', () => {
  const audited = makeEvaluation({
    tasks: [
      { taskId: 'paid', attempts: [1] },
      { taskId: 'unpaid', attempts: [1] },
    ],
    unaudited: 'refuse',
  })
  const [task] = audited.tasks
  assert.ok(task !== undefined && audited.audited !== undefined)
  const void_ = {
    taskId: 'unpaid',
    episode: 'e',
    because: 'audit-void' as const,
    reasons: ['canary-passed' as const],
    detail: 'tests/test_a.py::test_b',
  }
  const evaluation = {
    ...audited,
    audited: { ...audited.audited, passAt1: 0.5, sem: 0.5, paid: 1, differences: [void_] },
  }
  const data = report({ evaluations: [evaluation], paired: [], curve: [] })
  const text = renderTextReport(data)
  assert.match(text, /Audited scores/)
  assert.match(text, /0\.500 ± 0\.500/)
  assert.match(text, /unpaid {2}audit-void {2}a test whose assertions must fail did pass {2}tests\/test_a\.py::test_b/)
  assert.match(renderHtmlReport(data), /Resolved officially and not paid/)
  const [stage] = (JSON.parse(renderJsonReport(data)) as JsonReport).stages
  assert.deepEqual([stage?.audited?.passAt1, stage?.audited?.differences], [0.5, [void_]])
  const older = renderTextReport(report())
  assert.doesNotMatch(older, /Audited|not paid/)
})
