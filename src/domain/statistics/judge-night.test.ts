import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EvaluationRecord } from '../../contracts/evaluations.types.ts'
import { type Attempt, CONDITIONS, makeEvaluation } from '../../../test/support/evaluation-records.ts'
import { decideRegression, judgeNight, type NightRules } from './judge-night.ts'

const RULES: NightRules = { margin: 0.02, confidence: 0.95, minGraded: 0.95 }

function evaluation(attempts: (index: number) => Attempt[], { tasks = 60, from = 0, rows = 'row' } = {}) {
  return makeEvaluation({
    run: `run-${from}`,
    tasks: Array.from({ length: tasks }, (_, index) => ({
      taskId: `t${String(from + index).padStart(4, '0')}`,
      repo: `r${(from + index) % 12}`,
      rowHash: rows,
      attempts: attempts(index),
    })),
  })
}

const all = (): Attempt[] => [1, 1]
const none = (): Attempt[] => [0, 0]
const half = (index: number): Attempt[] => (index % 2 === 0 ? [1, 1] : [0, 0])

test('a proven loss beyond the margin is regressed, and a proven gain improved', () => {
  const worse = judgeNight(evaluation(all), evaluation(half), RULES)
  assert.equal(worse.outcome, 'regressed')
  assert.match(worse.statement, /^regressed: delta\.upper −0\.\d{3} < −0\.020 \(difference −0\.500, 95 % interval/)
  const better = judgeNight(evaluation(half), evaluation(all), RULES)
  assert.equal(better.outcome, 'improved')
  assert.match(better.statement, /^improved: delta\.lower \+0\.\d{3} > 0/)
})

test('equal nights are not-worse only when enough tasks exclude the loss', () => {
  const many = { tasks: 1_000 }
  assert.equal(judgeNight(evaluation(all, many), evaluation(all, many), RULES).outcome, 'not-worse')
  const few = judgeNight(evaluation(all, { tasks: 6 }), evaluation(all, { tasks: 6 }), RULES)
  assert.equal(few.outcome, 'cannot-exclude')
  assert.match(few.statement, /^cannot exclude a regression of more than 0\.02: delta\.lower/)
})

test('a loss within the margin is no regression even when it is certain', () => {
  assert.equal(judgeNight(evaluation(all), evaluation(half), { ...RULES, margin: 0.9 }).outcome, 'not-worse')
})

test('nothing is judged when too little was graded on either side or no task is common', () => {
  const poor = evaluation((index) => (index < 10 ? [1, 'infra'] : [1, 1]))
  for (const pair of [
    [poor, evaluation(none)],
    [evaluation(none), poor],
  ] as const) {
    const judged = judgeNight(...pair, RULES)
    assert.equal(judged.outcome, 'not-compared')
    assert.match(judged.statement, /too little was graded in nightly of run-0: 91\.67 % < 95 %/)
  }
  const apart = judgeNight(evaluation(all), evaluation(none, { from: 100 }), RULES)
  assert.deepEqual([apart.outcome, apart.difference, apart.common], ['not-compared', null, []])
  assert.match(
    apart.statement,
    /no task was scored on both sides; 0 common tasks, left out: 60 only before, 60 only after/,
  )
})

test('a task with another row is not compared', () => {
  const before = evaluation(all)
  const after = evaluation(none, { rows: 'other' })
  const judged = judgeNight(before, after, RULES)
  assert.deepEqual([judged.outcome, judged.tasks.otherRows, judged.tasks.common], ['not-compared', 60, 0])
})

test('names other settings beside the verdict', () => {
  const after = evaluation(() => [1])
  assert.match(judgeNight(evaluation(all), after, RULES).statement, /other settings: attempts a task: 2 against 1/)
})

test('the statement has the rule, the difference, its interval and what was left out', () => {
  const many = { tasks: 1_000 }
  const judged = judgeNight(evaluation(all, many), evaluation(all, many), RULES)
  assert.match(
    judged.statement,
    /^not worse: delta\.lower [+−]0\.\d{3} ≥ −0\.020 \(difference \+0\.000, 95 % interval [+−]0\.\d{3} to \+0\.\d{3}; 1000 common tasks\)$/,
  )
  assert.equal(judged.difference?.mean, 0)
  assert.ok(judged.difference.low <= 0 && judged.difference.high >= 0)
  const few = judgeNight(evaluation(all, { tasks: 6 }), evaluation(all, { tasks: 6 }), RULES)
  assert.match(few.statement, /delta\.lower −0\.\d{3} < −0\.020 \(.*; 6 common tasks\)$/)
  assert.deepEqual(few.common, ['t0000', 't0001', 't0002', 't0003', 't0004', 't0005'])
})

test('counts tasks of one side and tasks with a changed row separately', () => {
  const before = evaluation(all, { tasks: 8 })
  const after = evaluation(all, { tasks: 8, from: 2 })
  const changed = {
    ...after,
    tasks: after.tasks.map((task) => (task.taskId === 't0003' ? { ...task, rowHash: 'other' } : task)),
  }
  const judged = judgeNight(before, changed, RULES)
  assert.match(judged.statement, /; 5 common tasks, left out: 2 only before, 2 only after, 1 with another row\)?$/)
  assert.deepEqual(judged.tasks, { common: 5, onlyBefore: 2, onlyAfter: 2, otherRows: 1 })
  assert.deepEqual(judged.common, ['t0002', 't0004', 't0005', 't0006', 't0007'])
})

test('an interval that only touches the margin excludes a regression', () => {
  assert.equal(decideRegression({ low: -0.02, high: -0.02 }, 0.02), 'excluded')
})

test('gains in one repository of twelve prove no improvement', () => {
  // A third of the draws lacks that repository, so the interval begins at exactly 0.
  const judged = judgeNight(
    evaluation(none),
    evaluation((index) => (index % 12 === 0 ? [1, 1] : [0, 0])),
    RULES,
  )
  assert.deepEqual([judged.difference?.low, judged.outcome], [0, 'not-worse'])
})

test('a night with exactly the required share of graded attempts is judged', () => {
  // 119 of 120 attempts.
  const after = evaluation((index) => (index === 0 ? [1, 'infra'] : [1, 1]))
  const judged = judgeNight(evaluation(all), after, { ...RULES, minGraded: 119 / 120 })
  assert.notEqual(judged.outcome, 'not-compared')
})

test('names at most five other settings, and no suite', () => {
  const { sampling, limits } = CONDITIONS
  const before = { ...evaluation(all), suite: 'a', conditions: CONDITIONS }
  const after: EvaluationRecord = {
    ...evaluation(all),
    suite: 'b',
    conditions: {
      scaffold: 'demo',
      demonstration: true,
      sampling: { ...sampling, temperature: 0.7, topP: 0.9 },
      limits: { ...limits, maxTurns: 80 },
      gradingProfiles: ['swebench-5'],
    },
  }
  assert.match(
    judgeNight(before, after, RULES).statement,
    /common tasks; other settings: scaffold: [^,]*, demonstration: [^,]*, grading profiles: [^,]*, sampling\.temperature: [^,]*, sampling\.topP: 1 against 0\.9\)$/,
  )
})
