import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure } from '@temporalio/activity'
import { LonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { Failing } from '../../contracts/waits.types.ts'
import { endOfWaiting, type Waiting } from './end-of-waiting.ts'

const DAY_MS = 86_400_000

const failing = (code: FailureCode) => (): Promise<never> =>
  Promise.reject(new LonghaulError({ code, message: 'Expected an answer', details: { url: 'http://nowhere' } }))

/** What the attempts before had in common. */
const before = (code: FailureCode, sinceMs: number, tries: number): Failing => ({
  code,
  message: 'Expected an answer',
  sinceMs,
  tries,
  on: null,
  doing: null,
})

const at = (nowMs: number, changes: Partial<Waiting> = {}): Waiting => ({
  unavailableTimeoutMs: 1_000,
  failing: null,
  startedMs: 0,
  now: () => nowMs,
  ...changes,
})

test('a silent server is retryable until the timeout', async () => {
  await assert.rejects(endOfWaiting(at(999), failing('Model.Unavailable')), {
    code: 'Model.Unavailable',
    retryable: true,
  })
})

test('a silent server ends the run after the timeout, with its address and the fix', async () => {
  const waiting = at(1_000, { failing: before('Model.Unavailable', 0, 2), startedMs: 900 })
  await assert.rejects(endOfWaiting(waiting, failing('Model.Unavailable')), (error) => {
    assert.ok(error instanceof LonghaulError)
    assert.deepEqual([error.code, error.retryable], ['Model.Unreachable', false])
    assert.match(error.message, /http:\/\/nowhere.*policyServer\.url/)
    return true
  })
})

/** Two days after a person was asked to restart the server, the person does: while it loads nothing answers. */
test('a server that is restarted after days of waiting has its silence counted from now', async () => {
  const waiting = at(2 * DAY_MS + 500, { failing: before('Model.NotServed', 0, 2_900), startedMs: 2 * DAY_MS })
  await assert.rejects(endOfWaiting(waiting, failing('Model.Unavailable')), { code: 'Model.Unavailable' })
})

for (const code of ['Model.NotServed', 'Model.Busy'] as const) {
  test(`${code} is retried without a limit, because a person has to act`, async () => {
    const waiting = at(13 * DAY_MS, { failing: before(code, 0, 18_000), startedMs: 13 * DAY_MS })
    await assert.rejects(endOfWaiting(waiting, failing(code)), { code, retryable: true })
  })
}

test('any other failure ends the run after exactly twenty equal failures', async () => {
  await assert.rejects(
    endOfWaiting(at(1, { failing: before('Artifact.Unavailable', 0, 18) }), failing('Artifact.Unavailable')),
    {
      code: 'Artifact.Unavailable',
      retryable: true,
    },
  )
  await assert.rejects(
    endOfWaiting(at(1, { failing: before('Artifact.Unavailable', 0, 19) }), failing('Artifact.Unavailable')),
    (error) =>
      error instanceof ApplicationFailure && error.type === 'Artifact.Unavailable' && error.nonRetryable === true,
  )
  // A bug is no infrastructure, and has no code of its own.
  const broken = (): Promise<never> => Promise.reject(new TypeError('x is undefined'))
  await assert.rejects(
    endOfWaiting(at(1, { failing: before('Unexpected', 0, 19) }), broken),
    (error) => error instanceof ApplicationFailure && error.nonRetryable === true,
  )
})

test('another failure during days of waiting counts as the first of its kind', async () => {
  const waiting = at(3 * DAY_MS, { failing: before('Model.NotServed', 0, 4_000), startedMs: 3 * DAY_MS })
  await assert.rejects(endOfWaiting(waiting, failing('Artifact.Unavailable')), { retryable: true })
})

test('a permanent failure is thrown unchanged', async () => {
  await assert.rejects(endOfWaiting(at(9e9), failing('Model.CanaryMismatch')), { code: 'Model.CanaryMismatch' })
})
