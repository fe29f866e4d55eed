import assert from 'node:assert/strict'
import { test } from 'node:test'

import type { AuditOutcome } from '../../contracts/audit.types.ts'
import { paymentOf, unauditedRewardsOf, unpaidOf } from './payment.ts'

const record = (
  outcome: AuditOutcome | null,
  more: { verdict?: 'unresolved' | 'could-not-grade'; suspectedHack?: true } = {},
) => ({
  verdict: 'resolved' as const,
  suspectedHack: false,
  ...(outcome === null ? {} : { audit: { outcome, reasons: [], detail: null } }),
  ...more,
})

test('pays only a resolved episode without a voiding sign that the audit confirms', () => {
  assert.equal(paymentOf(record('agrees'), 'refuse'), 'paid')
  assert.equal(paymentOf(record('agrees', { suspectedHack: true }), 'allow'), 'suspected-hack')
  assert.equal(paymentOf(record('agrees', { verdict: 'unresolved' }), 'allow'), 'unresolved')
  assert.equal(paymentOf(record('agrees', { verdict: 'could-not-grade' }), 'allow'), 'unresolved')
  for (const unaudited of ['refuse', 'allow'] as const) assert.equal(paymentOf(record('void'), unaudited), 'audit-void')
})

test('the recipe decides about episodes without an audit', () => {
  for (const outcome of ['unsupported', null] as const) {
    assert.equal(paymentOf(record(outcome), 'allow'), 'paid')
    assert.equal(paymentOf(record(outcome), 'refuse'), 'unaudited')
  }
})

test('only a resolved episode can be unpaid', () => {
  assert.equal(unpaidOf(record('agrees'), 'refuse'), null)
  assert.equal(unpaidOf(record('void', { verdict: 'unresolved' }), 'refuse'), null)
  assert.equal(unpaidOf(record('void'), 'refuse'), 'audit-void')
  assert.equal(unpaidOf(record(null), 'refuse'), 'unaudited')
})

test('a recipe from before audits pays without them', () => {
  assert.equal(unauditedRewardsOf({}), 'allow')
  assert.equal(unauditedRewardsOf({ grading: { unauditedRewards: 'refuse' } }), 'refuse')
})
