import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import { withPatience } from './with-patience.ts'

const failing = (code: FailureCode) => (): Promise<never> =>
  Promise.reject(new LonghaulError({ code, message: 'Expected an answer', details: { url: 'http://nowhere' } }))

test('a server is silent and the patience lasts: the failure stays one that is tried again', async () => {
  const patience = { patienceMs: 1_000, sinceMs: 0, now: () => 999 }
  await assert.rejects(withPatience(patience, failing('Model.Unavailable')), {
    code: 'Model.Unavailable',
    retryable: true,
  })
})

test('a server is silent and the patience is used up: the failure ends the run and names address and fix', async () => {
  const patience = { patienceMs: 1_000, sinceMs: 0, now: () => 1_000 }
  await assert.rejects(withPatience(patience, failing('Model.Unavailable')), (error) => {
    assert.ok(error instanceof LonghaulError)
    assert.deepEqual([error.code, error.retryable], ['Model.Unreachable', false])
    assert.match(error.message, /http:\/\/nowhere.*policyServer\.url/)
    return true
  })
})

test('a server that answers is waited for however long: busy stays busy', async () => {
  const patience = { patienceMs: 1_000, sinceMs: 0, now: () => 3_600_000 }
  await assert.rejects(withPatience(patience, failing('Model.Busy')), { code: 'Model.Busy' })
})
