/**
 * Agreement with independent implementations: SciPy and statsmodels for closed forms, a second bootstrap in NumPy on equal
 * resample indices. The values and how to make them again: test/support/reference-statistics.py.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { bootstrapInterval, type ClusteredOutcomes, type PairedOutcomes, pairedBootstrapInterval } from './bootstrap.ts'
import { testMcNemar, exactInterval, wilsonInterval } from './proportions.ts'
import { mean, passAtK, standardError } from './statistics.ts'
import { meanInterval } from './score-interval.ts'
import { betaQuantile, normalQuantile, regularizedBeta, studentQuantile } from './special-functions.ts'

interface Reference {
  normal: { probability: number; quantile: number }[]
  student: { probability: number; freedom: number; quantile: number }[]
  beta: { a: number; b: number; x: number; value: number }[]
  betaQuantile: { a: number; b: number; probability: number; x: number }[]
  proportions: { successes: number; trials: number; level: number; wilson: number[]; exact: number[] }[]
  mcnemar: { onlyBefore: number; onlyAfter: number; exact: number; midP: number }[]
  means: { values: number[]; mean: number; sem: number; level: number; interval: number[] }[]
  passAtK: { n: number; c: number; k: number; value: number }[]
  bootstraps: ({ draws: number; seed: number; level: number; low: number; high: number } & (
    | { paired: false; tasks: ClusteredOutcomes[] }
    | { paired: true; tasks: PairedOutcomes[] }
  ))[]
}

const FILE = new URL('../../../test/support/reference-statistics.json', import.meta.url)
const reference = JSON.parse(readFileSync(FILE, 'utf8')) as Reference

const TOLERANCE = 1e-9

/** 1e-9 of the value, and absolutely below 1. */
function agree(actual: number, expected: number, what: object): void {
  const allowed = TOLERANCE * Math.max(1, Math.abs(expected))
  assert.ok(Math.abs(actual - expected) <= allowed, `${JSON.stringify(what)}: got ${actual}`)
}

function agreeOnEvery<T extends object>(
  cases: readonly T[],
  compare: (one: T) => [number, number | undefined][],
): void {
  assert.ok(cases.length > 0)
  for (const one of cases) {
    for (const [actual, expected] of compare(one)) agree(actual, expected ?? Number.NaN, one)
  }
}

test('quantiles of the normal and of Student’s t', () => {
  agreeOnEvery(reference.normal, ({ probability, quantile }) => [[normalQuantile(probability), quantile]])
  agreeOnEvery(reference.student, ({ quantile, ...input }) => [[studentQuantile(input), quantile]])
})

test('the incomplete beta function and its inverse', () => {
  agreeOnEvery(reference.beta, ({ value, ...input }) => [[regularizedBeta(input), value]])
  agreeOnEvery(reference.betaQuantile, ({ x, ...input }) => [[betaQuantile(input), x]])
})

test('Wilson’s and the exact interval of a rate', () => {
  agreeOnEvery(reference.proportions, ({ wilson, exact, ...input }) => {
    const [score, sure] = [wilsonInterval(input), exactInterval(input)]
    return [
      [score.low, wilson[0]],
      [score.high, wilson[1]],
      [sure.low, exact[0]],
      [sure.high, exact[1]],
    ]
  })
})

test('McNemar, exact and mid-p', () => {
  agreeOnEvery(reference.mcnemar, ({ onlyBefore, onlyAfter, exact, midP }) => {
    const found = testMcNemar({ onlyBefore, onlyAfter })
    return [
      [found.exact, exact],
      [found.midP, midP],
    ]
  })
})

test('mean, standard error and Student’s interval', () => {
  agreeOnEvery(reference.means, ({ values, level, ...expected }) => {
    const interval = meanInterval({ values, level, range: null })
    return [
      [mean(values), expected.mean],
      [standardError(values), expected.sem],
      [interval.low, expected.interval[0]],
      [interval.high, expected.interval[1]],
    ]
  })
})

test('pass@k as HumanEval publishes the estimator', () => {
  agreeOnEvery(reference.passAtK, ({ n, c, k, value }) => {
    const outcomes = Array.from({ length: n }, (_, index): 0 | 1 => (index < c ? 1 : 0))
    return [[passAtK({ tasks: [{ taskId: 't', outcomes }], k })?.mean ?? Number.NaN, value]]
  })
})

test('bootstraps on equal resample indices agree to the last digit', () => {
  assert.deepEqual(
    reference.bootstraps.map((one) => (one.paired ? pairedBootstrapInterval(one) : bootstrapInterval(one))),
    reference.bootstraps.map(({ low, high }) => ({ low, high })),
  )
})
