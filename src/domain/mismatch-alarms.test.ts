import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AlarmLimits } from '../contracts/training.types.ts'
import { findAlarms, sayAlarms } from './mismatch-alarms.ts'

const LIMITS: AlarmLimits = {
  kl: 0.1,
  logprobGap: null,
  importanceMean: [0.5, 2],
  importanceStd: 1,
  effectiveSamples: 0.3,
  chi2: 1,
  capped: 0.1,
  masked: 0.3,
}
const QUIET = { k1: -0.001, k3: 0.002, abs_dlogp_max: 3, is_mean: 1, is_std: 0.1, ess: 0.98, chi2: 0.01, tis_capped: 0 }

test('steps inside every limit, and steps of a stage that has no sampler’s log-probabilities, raise nothing', () => {
  assert.deepEqual(findAlarms([QUIET, { loss: 0.3, grad_norm: 1 }], LIMITS), [])
})

test('each figure outside its limit is named with its step, its value and its side', () => {
  const loud = { ...QUIET, k1: -0.2, is_mean: 0.4, ess: 0.29, masked_frac: 0.31 }
  assert.deepEqual(findAlarms([QUIET, loud], LIMITS), [
    { step: 2, metric: 'k1', value: -0.2, limit: 0.1, side: 'above' },
    { step: 2, metric: 'is_mean', value: 0.4, limit: 0.5, side: 'below' },
    { step: 2, metric: 'ess', value: 0.29, limit: 0.3, side: 'below' },
    { step: 2, metric: 'masked_frac', value: 0.31, limit: 0.3, side: 'above' },
  ])
  assert.match(sayAlarms(findAlarms([loud], LIMITS)), /^k1 is -0.2, above 0.1, at optimizer step 1, and 3 more$/)
})

test('a limit of null is no limit; a value that is no finite number is outside every other', () => {
  assert.deepEqual(findAlarms([{ abs_dlogp_max: 1e9 }], LIMITS), [])
  assert.equal(findAlarms([{ abs_dlogp_max: 4 }], { ...LIMITS, logprobGap: 3 }).length, 1)
  for (const value of [Number.NaN, 'NaN', null]) {
    assert.deepEqual(findAlarms([{ k3: value }], LIMITS), [
      { step: 1, metric: 'k3', value: null, limit: 0.1, side: 'above' },
    ])
  }
})
