import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inActivity } from '../../../test/support/activity-context.ts'
import { activity } from './activity-runtime.ts'

/** The server gives an activity up that it has not heard of for its heartbeat timeout. */
test('while an activity works it is heard of three times in its heartbeat timeout, and at least every ten seconds', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] })
  for (const [heartbeatTimeoutMs, beats] of [
    [15_000, 3],
    [30_000, 3],
    [600_000, 60],
  ] as const) {
    let heard = 0
    const work = activity(async () => {
      const begun = heard
      t.mock.timers.tick(heartbeatTimeoutMs)
      return heard - begun
    })
    const seen = await inActivity(() => work(undefined), { heartbeatTimeoutMs, onHeartbeat: () => (heard += 1) })
    assert.equal(seen, beats, `timeout ${heartbeatTimeoutMs}`)
    const ended = heard
    t.mock.timers.tick(heartbeatTimeoutMs)
    assert.equal(heard, ended, 'it is heard of after its end')
  }
})
