import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evaluationName, isAdditionalSuite, isIntermediateEvaluation } from './evaluation-names.ts'

test('an evaluation after an iteration ends in four digits; those between stages do not', () => {
  assert.equal(isIntermediateEvaluation('dapo-1-0003'), true)
  for (const name of ['base', 'rft', 'dapo-1', 'dapo-1-003', 'dapo-1-0003.verified', 'dapo0003']) {
    assert.equal(isIntermediateEvaluation(name), false, name)
  }
})

test('the name on a further suite says so, that on the run’s own suite does not', () => {
  assert.equal(evaluationName('rl', 'verified'), 'rl.verified')
  assert.equal(isAdditionalSuite(evaluationName('rl', 'verified')), true)
  assert.equal(isAdditionalSuite('dapo-1-0003'), false)
})
