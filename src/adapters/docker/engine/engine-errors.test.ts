import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createEnginePulse } from './engine-errors.ts'

const never = new AbortController().signal

/** Answers from that question on. */
function engineOf(answersFrom: number) {
  let asked = 0
  const ping = async () => {
    asked += 1
    if (asked < answersFrom) throw new Error('ECONNREFUSED')
  }
  return { pulse: createEnginePulse({ ping }), asked: () => asked }
}

test('does not wait for a responsive engine, and asks a restarting one until it answers', async () => {
  const beganMs = Date.now()
  const well = engineOf(1)
  assert.equal(await well.pulse.answersBy(beganMs, never), true)
  assert.equal(well.pulse.wasSilentSince(beganMs), false)
  const restarted = engineOf(3)
  assert.equal(await restarted.pulse.answersBy(Date.now() + 600_000, never), true)
  assert.equal(restarted.asked(), 3)
  assert.equal(restarted.pulse.wasSilentSince(beganMs), true)
})

test('asks an absent engine until the deadline, and a cancel ends the wait with its reason', async () => {
  const gone = engineOf(Number.POSITIVE_INFINITY)
  assert.equal(await gone.pulse.answersBy(Date.now() - 1, never), false)
  assert.equal(gone.asked(), 1)
  const controller = new AbortController()
  const reason = new Error('cancelled')
  setTimeout(() => controller.abort(reason), 20)
  await assert.rejects(gone.pulse.answersBy(Date.now() + 600_000, controller.signal), (error) => error === reason)
})
