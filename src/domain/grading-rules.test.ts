import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isChanged, isLostToInfrastructure } from './grading-rules.ts'

test('a verdict has changed only when an earlier, different one exists', () => {
  const before = { kind: 'unresolved' as const, reason: null }
  assert.equal(isChanged({ kind: 'resolved', before }), true)
  assert.equal(isChanged({ kind: 'unresolved', before }), false)
  assert.equal(isChanged({ kind: 'resolved', before: null }), false)
})

test('only a grading without a verdict that the image or the infrastructure caused is lost', () => {
  const lost = (reason: string | null) => isLostToInfrastructure({ kind: 'could-not-grade', reason })
  assert.equal(lost('image'), true)
  assert.equal(lost('Sandbox.Lost'), true)
  // What the patch itself prevents would end so on every host.
  assert.equal(lost('patch-rejected'), false)
  assert.equal(lost('tests-timed-out'), false)
  assert.equal(isLostToInfrastructure({ kind: 'unresolved', reason: 'image' }), false)
})
