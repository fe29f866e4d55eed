import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AlarmLimits } from '../../contracts/training.types.ts'
import { ALARM_LIMITS } from '../../../test/support/training-records.ts'
import { findAlarms as findAll, findDivergence, formatAlarms } from './training-alarms.ts'

const QUIET = { k1: -0.001, k3: 0.002, abs_dlogp_max: 3, is_mean: 1, is_std: 0.1, ess: 0.98, chi2: 0.01, tis_capped: 0 }

function findAlarms(steps: Record<string, unknown>[], limits: AlarmLimits, firstEntropy: number | null = null) {
  return findAll({ steps, limits, kind: 'dapo', firstEntropy })
}

test('steps inside every limit, or without the sampler’s log-probabilities, raise no alarm', () => {
  assert.deepEqual(findAlarms([QUIET, { loss: 0.3, grad_norm: 1 }], ALARM_LIMITS), [])
})

test('names each figure outside its limit with its step, value and side', () => {
  const loud = { ...QUIET, k1: -0.2, is_mean: 0.4, ess: 0.29, masked_frac: 0.31 }
  assert.deepEqual(findAlarms([QUIET, loud], ALARM_LIMITS), [
    { step: 2, metric: 'k1', value: -0.2, limit: 0.1, side: 'above' },
    { step: 2, metric: 'is_mean', value: 0.4, limit: 0.5, side: 'below' },
    { step: 2, metric: 'ess', value: 0.29, limit: 0.3, side: 'below' },
    { step: 2, metric: 'masked_frac', value: 0.31, limit: 0.3, side: 'above' },
  ])
  assert.match(
    formatAlarms(findAlarms([loud], ALARM_LIMITS)),
    /^k1 is -0.2, above 0.1, at optimizer step 1, and 3 more$/,
  )
})

test('a limit of null is off, and a non-finite value is outside every other limit', () => {
  assert.deepEqual(findAlarms([{ abs_dlogp_max: 1e9 }], ALARM_LIMITS), [])
  assert.equal(findAlarms([{ abs_dlogp_max: 4 }], { ...ALARM_LIMITS, logprobGap: 3 }).length, 1)
  for (const value of [Number.NaN, 'NaN', null]) {
    assert.deepEqual(findAlarms([{ k3: value }], ALARM_LIMITS), [
      { step: 1, metric: 'k3', value: null, limit: 0.1, side: 'above' },
    ])
  }
})

test('training limits apply in every stage, and the loss limit only in fine-tuning', () => {
  const limits = { ...ALARM_LIMITS, gradNorm: 10, entropy: 0.2, fineTuningLoss: 3 }
  const steps = [
    { loss: 2.9, grad_norm: 9, entropy: 0.21 },
    { loss: 3.1, grad_norm: 11, entropy: 0.19 },
  ]
  const named = (kind: 'rft' | 'dapo') =>
    findAll({ steps, limits, kind, firstEntropy: null }).map(({ metric, step, side }) => `${metric} ${step} ${side}`)
  assert.deepEqual(named('rft'), ['grad_norm 2 above', 'entropy 2 below', 'loss 2 above'])
  assert.deepEqual(named('dapo'), ['grad_norm 2 above', 'entropy 2 below'])
})

test('measures collapsed entropy by the entropy at the start of its stage', () => {
  const limits = { ...ALARM_LIMITS, entropyShare: 0.25 }
  // A quarter of 0.8 is 0.2.
  assert.deepEqual(findAlarms([{ entropy: 0.21 }, { entropy: 0.19 }], limits, 0.8), [
    { step: 2, metric: 'entropy', value: 0.19, limit: 0.2, side: 'below' },
  ])
  assert.deepEqual(findAlarms([{ entropy: 0.01 }], limits, null), [])
})

test('a recipe stored before these limits existed has none', () => {
  const { kl, logprobGap, importanceMean, importanceStd, effectiveSamples, chi2, capped, masked } = ALARM_LIMITS
  const old = { kl, logprobGap, importanceMean, importanceStd, effectiveSamples, chi2, capped, masked } as AlarmLimits
  const wild = { loss: 9, grad_norm: 1e9, entropy: 0 }
  assert.deepEqual(findAlarms([wild], old, 1), [])
  assert.equal(findDivergence({ steps: [{ k1: 50 }], limits: old, kind: 'dapo', firstEntropy: 1 }), null)
})

test('a mean gap of more than a nat per token, or a non-finite one, is divergence in either direction', () => {
  const judge = (k1: unknown, limits = ALARM_LIMITS) =>
    findDivergence({ steps: [QUIET, { ...QUIET, k1 }], limits, kind: 'dapo', firstEntropy: null })
  assert.equal(judge(0.9), null)
  assert.deepEqual(judge(1.2), { step: 2, metric: 'k1', value: 1.2, limit: 1, side: 'above' })
  assert.equal(judge(-1.2)?.step, 2)
  assert.equal(judge('NaN')?.value, null)
  assert.equal(judge(50, { ...ALARM_LIMITS, divergedKl: null }), null)
})

test('each figure of the gap between sampler and trainer has its own limit and side', () => {
  const loud = { k1: 0.2, k3: -0.2, is_mean: 2.1, is_std: 1.1, ess: 0.2, chi2: 1.1, tis_capped: 0.2, masked_frac: 0.4 }
  assert.deepEqual(
    findAlarms([loud], ALARM_LIMITS).map(({ metric, side, limit }) => `${metric} ${side} ${limit}`),
    [
      'k1 above 0.1',
      'k3 above 0.1',
      'is_mean above 2',
      'is_std above 1',
      'ess below 0.3',
      'chi2 above 1',
      'tis_capped above 0.1',
      'masked_frac above 0.3',
    ],
  )
})

test('a figure at exactly its limit is inside it, and only gaps are compared by amount', () => {
  const still = { k1: -0.1, is_mean: 0.5, is_std: 1, ess: 0.3, chi2: 1, tis_capped: 0.1, masked_frac: 0.3 }
  assert.deepEqual(findAlarms([still], ALARM_LIMITS), [])
  // A negative share of the entropy is below every limit, not as large as its amount.
  assert.equal(findAlarms([{ entropy: -1 }], { ...ALARM_LIMITS, entropy: 0.5 }).length, 1)
  assert.deepEqual(findAlarms([{ chi2: -5 }], ALARM_LIMITS), [])
})

test('the entropy limit is off without its share or without a first entropy', () => {
  assert.deepEqual(findAlarms([{ entropy: -1 }], { ...ALARM_LIMITS, entropyShare: null }, 0.8), [])
  assert.deepEqual(findAlarms([{ entropy: -1 }], { ...ALARM_LIMITS, entropyShare: 0.5 }, null), [])
})

test('formats no alarm, one alarm and a non-finite alarm', () => {
  assert.equal(formatAlarms([]), 'no alarm')
  const [alarm] = findAlarms([{ chi2: 1.23456 }], ALARM_LIMITS)
  assert.ok(alarm !== undefined)
  assert.equal(formatAlarms([alarm]), 'chi2 is 1.23, above 1, at optimizer step 1')
  assert.equal(formatAlarms([{ ...alarm, value: null }]), 'chi2 is no finite number, above 1, at optimizer step 1')
})
