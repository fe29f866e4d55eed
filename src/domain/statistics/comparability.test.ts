import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EvaluationConditions, EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { CONDITIONS, makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { checkComparability, gradedShare, judgedScore } from './comparability.ts'

function evaluation(changes: Partial<EvaluationRecord> = {}): EvaluationRecord {
  return { ...makeEvaluation({ tasks: [{ taskId: 'a', attempts: [1] }] }), conditions: CONDITIONS, ...changes }
}

test('equal settings in another order give no warning', () => {
  const limits = Object.fromEntries(Object.entries(CONDITIONS.limits).toReversed()) as EvaluationConditions['limits']
  assert.deepEqual(checkComparability(evaluation(), evaluation({ conditions: { ...CONDITIONS, limits } })), {
    otherRows: [],
    onlyBefore: [],
    onlyAfter: [],
    warnings: [],
  })
})

test('names each setting that differs with both values', () => {
  const conditions: EvaluationConditions = {
    scaffold: 'demo',
    demonstration: true,
    sampling: { ...CONDITIONS.sampling, temperature: 0.7, minP: 0.1 },
    limits: { ...CONDITIONS.limits, maxTurns: 80 },
    gradingProfiles: ['swebench-4.1', 'swebench-5'],
  }
  assert.deepEqual(checkComparability(evaluation(), evaluation({ conditions })).warnings, [
    'scaffold: "paper" against "demo"',
    'demonstration: false against true',
    'grading profiles: ["swebench-4.1"] against ["swebench-4.1","swebench-5"]',
    'sampling.minP: 0 against 0.1',
    'sampling.temperature: 1 against 0.7',
    'limits.maxTurns: 40 against 80',
  ])
})

test('a setting that only one side knows counts as different, on either side', () => {
  const { minP: _minP, ...older } = CONDITIONS.sampling
  const old = evaluation({ conditions: { ...CONDITIONS, sampling: older as EvaluationConditions['sampling'] } })
  assert.deepEqual(checkComparability(old, evaluation()).warnings, ['sampling.minP: undefined against 0'])
  assert.deepEqual(checkComparability(evaluation(), old).warnings, ['sampling.minP: 0 against undefined'])
})

test('a side without stored conditions is compared by suite and attempts only', () => {
  const other = evaluation({ conditions: { ...CONDITIONS, scaffold: 'demo' } })
  assert.deepEqual(checkComparability(evaluation({ conditions: null }), other).warnings, [])
  assert.deepEqual(checkComparability(other, evaluation({ conditions: null, attempts: 3 })).warnings, [
    'attempts a task: 1 against 3',
  ])
})

test('the graded share refers to the requested attempts and is 0 without tasks', () => {
  const { tasks } = makeEvaluation({
    tasks: [
      { taskId: 'a', attempts: [1, 0] },
      { taskId: 'b', attempts: [1, 'infra'] },
    ],
  })
  assert.equal(gradedShare({ tasks, attempts: 2 }), 3 / 4)
  assert.equal(gradedShare({ tasks: [], attempts: 2 }), 0)
})

test('a workflow gets the score with its interval and the graded share', () => {
  const record = evaluation()
  const { interval, score } = record
  assert.deepEqual(judgedScore(record), { ...score, evidence: { interval, graded: gradedShare(record) } })
})

test('shows only the first twelve digits of two different suites', () => {
  const [before, after] = ['a', 'b'].map((digit) => evaluation({ suite: digit.repeat(64) }))
  assert.ok(before !== undefined && after !== undefined)
  assert.deepEqual(checkComparability(before, after).warnings, ['suite: "aaaaaaaaaaaa" against "bbbbbbbbbbbb"'])
})
