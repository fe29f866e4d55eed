import assert from 'node:assert/strict'
import { test } from 'node:test'

import { FAILURE_CODES, type FailureCode } from '../contracts/failure-codes.ts'
import { answerToFailure, judgeLosses, mayBeOwnDoing } from './failure-answers.ts'

const SUSPECTED = ['Sandbox.Ended', 'Sandbox.Fenced', 'Sandbox.JournalConflict', 'Sandbox.Behind'] as const

test('only failures that an agent can cause from inside its sandbox may be the policy’s own doing', () => {
  const found = (Object.keys(FAILURE_CODES) as FailureCode[]).filter(mayBeOwnDoing)
  assert.deepEqual(found.toSorted(), [...SUSPECTED, 'Sandbox.DiskLimit'].toSorted())
  // Each asks for another sandbox: one loss proves nothing.
  for (const code of SUSPECTED) assert.deepEqual(answerToFailure(code), { kind: 're-place' }, code)
})

test('a first loss is placed again for every suspected code', () => {
  for (const code of [...SUSPECTED, 'Sandbox.Lost', 'Sandbox.OutOfDisk'] as const) {
    assert.equal(judgeLosses([code]), 'place-again', code)
  }
})

test('a second loss from inside is the policy’s own doing, also by another code or with a loss of ours in between', () => {
  for (const first of SUSPECTED) {
    for (const second of SUSPECTED) {
      assert.equal(judgeLosses([first, second]), 'own-doing', `${first}, ${second}`)
      assert.equal(judgeLosses([first, 'Sandbox.Lost', second]), 'own-doing', `${first}, lost, ${second}`)
    }
  }
})

test('a sandbox that was ended for its disk use is the policy’s own doing at once', () => {
  assert.equal(judgeLosses(['Sandbox.DiskLimit']), 'own-doing')
  assert.equal(judgeLosses(['Sandbox.Lost', 'Sandbox.DiskLimit']), 'own-doing')
  assert.equal(judgeLosses(['Sandbox.DiskLimit', 'Sandbox.Lost']), 'place-again')
})

test('three losses count as infrastructure when at most one came from inside', () => {
  assert.equal(judgeLosses(['Sandbox.Lost', 'Sandbox.Lost']), 'place-again')
  assert.equal(judgeLosses(['Sandbox.Lost', 'Sandbox.Lost', 'Sandbox.Lost']), 'infra')
  assert.equal(judgeLosses(['Sandbox.Lost', 'Sandbox.Ended']), 'place-again')
  assert.equal(judgeLosses(['Sandbox.Ended', 'Sandbox.Lost', 'Sandbox.OutOfDisk']), 'infra')
})

test('a sandbox of an earlier execution is no loss', () => {
  assert.equal(judgeLosses(['Sandbox.Foreign', 'Sandbox.Lost', 'Sandbox.Lost']), 'place-again')
  assert.equal(judgeLosses(['Sandbox.Foreign', 'Sandbox.Foreign', 'Sandbox.Foreign']), 'place-again')
})

test('a failed replay counts as ours after a loss of ours, and as the policy’s after a suspected loss', () => {
  assert.equal(judgeLosses(['Sandbox.Diverged']), 'infra')
  assert.equal(judgeLosses(['Sandbox.Lost', 'Sandbox.Diverged']), 'infra')
  assert.equal(judgeLosses(['Sandbox.Ended', 'Sandbox.Diverged']), 'own-doing')
  assert.equal(judgeLosses(['Sandbox.Ended', 'Sandbox.Lost', 'Sandbox.Diverged']), 'own-doing')
})

test('another sandbox is asked for when it belongs to an earlier execution, and when its host closes', () => {
  for (const code of ['Sandbox.Foreign', 'Host.Closed'] as const) {
    assert.deepEqual(answerToFailure(code), { kind: 're-place' }, code)
  }
})
