import assert from 'node:assert/strict'
import { test } from 'node:test'
import { LONGEST_STEP_SILENCE_S, stepHeartbeatSeconds } from './step-heartbeat.ts'

test('few episodes have the timeout of the preset, and many share a bounded rate of heartbeats', () => {
  assert.deepEqual([1, 80, 333].map(stepHeartbeatSeconds), [undefined, undefined, undefined])
  assert.deepEqual([500, 1_000, 2_000].map(stepHeartbeatSeconds), [30, 60, 120])
  assert.equal(stepHeartbeatSeconds(100_000), LONGEST_STEP_SILENCE_S)
})
