import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ApplicationFailure, CancelledFailure } from '@temporalio/activity'
import { LonghaulError } from '../../contracts/errors.ts'
import { inActivity } from '../../../test/support/activity-context.ts'
import { activity } from './activity-runtime.ts'

/** The server gives an activity up that it has not heard of for its heartbeat timeout. */
test('an activity sends three heartbeats per heartbeat timeout and at least one every ten seconds', async (t) => {
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
    assert.equal(heard, ended, 'it sent a heartbeat after its end')
  }
})

const busy = (): never => {
  throw new LonghaulError({ code: 'Model.Busy', message: 'All places are taken', details: { holders: 'train/a' } })
}

test('an error becomes a failure with its code, its details and its retry rule', async () => {
  for (const [thrown, expected] of [
    [busy, { type: 'Model.Busy', nonRetryable: false, details: [{ holders: 'train/a' }] }],
    [
      () => {
        throw new LonghaulError({ code: 'Config.Invalid', message: 'no such key' })
      },
      { type: 'Config.Invalid', nonRetryable: true, details: [{}] },
    ],
    [
      () => {
        throw new TypeError('x is undefined')
      },
      { type: 'Unexpected', details: [{}] },
    ],
    [
      () => {
        throw ApplicationFailure.nonRetryable('by itself', 'Own')
      },
      { type: 'Own', nonRetryable: true },
    ],
  ] as const) {
    const work = activity(async () => thrown())
    await assert.rejects(
      inActivity(() => work(undefined)),
      (error: unknown) => {
        assert.ok(error instanceof ApplicationFailure)
        const { type, nonRetryable, details } = error
        assert.partialDeepStrictEqual({ type, nonRetryable, details }, expected)
        return true
      },
    )
  }
})

test('the last heartbeat stores the failure, and its tries count over attempts with the same code', async () => {
  let before: unknown
  for (const [tries, sameKind] of [
    [1, true],
    [2, true],
    [1, false],
  ] as const) {
    const beats: { failing: { code: string; tries: number; sinceMs: number } | null }[] = []
    const work = activity(async (_: undefined, { failing }) => {
      assert.equal(failing?.tries ?? 0, before === undefined ? 0 : sameKind ? tries - 1 : 2)
      if (sameKind) return busy()
      throw new LonghaulError({ code: 'Model.Unavailable', message: 'gone' })
    })
    await assert.rejects(
      inActivity(() => work(undefined), {
        heartbeatDetails: before,
        onHeartbeat: (details) => beats.push(details as (typeof beats)[number]),
      }),
    )
    const last = beats.at(-1)?.failing
    assert.deepEqual([last?.code, last?.tries], [sameKind ? 'Model.Busy' : 'Model.Unavailable', tries])
    const earlier = (before as (typeof beats)[number] | undefined)?.failing
    if (tries === 2) assert.equal(last?.sinceMs, earlier?.sinceMs)
    before = beats.at(-1)
  }
})

/** Each heartbeat is a write of the server: an episode has 13 activities, and a turn three phases. */
test('an activity that ends within a second sends no heartbeat', async () => {
  const beats: unknown[] = []
  const work = activity(async (_: undefined, { beat }) => {
    beat({ step: 3 })
    return 'done'
  })
  await inActivity(() => work(undefined), { onHeartbeat: (details) => beats.push(details) })
  assert.deepEqual(beats, [])
})

test('rapidly changing details are sent once, the newest, and then at most once a second', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] })
  const beats: unknown[] = []
  const steps: unknown[][] = []
  const work = activity(async (_: undefined, { beat }) => {
    for (const step of [1, 2, 3]) beat({ step })
    t.mock.timers.tick(1_000)
    steps.push([...beats])
    beat({ step: 4 })
    beat({ step: 5 })
    t.mock.timers.tick(1_000)
    steps.push([...beats])
    t.mock.timers.tick(3_000)
    steps.push([...beats])
    beat({ step: 6 })
    steps.push([...beats])
  })
  await inActivity(() => work(undefined), {
    onHeartbeat: (details) => beats.push((details as { facts: unknown }).facts),
  })
  const third = { step: 3 }
  const fifth = { step: 5 }
  assert.deepEqual(steps, [[third], [third, fifth], [third, fifth], [third, fifth, { step: 6 }]])
})

test('an activity without a heartbeat timeout sends no heartbeat', async () => {
  const beats: unknown[] = []
  const work = activity(async () => busy())
  const options = { heartbeatTimeoutMs: 0, onHeartbeat: (details: unknown) => beats.push(details) }
  await assert.rejects(
    inActivity(() => work(undefined), options),
    { type: 'Model.Busy' },
  )
  assert.deepEqual(beats, [])
})

test('a cancelled activity ends as cancelled whatever its body throws, and is not counted as failing', async () => {
  const controller = new AbortController()
  const beats: { failing: unknown }[] = []
  const work = activity(async (_: undefined, { signal }) => {
    controller.abort()
    assert.ok(signal.aborted)
    busy()
  })
  await assert.rejects(
    inActivity(() => work(undefined), {
      signal: controller.signal,
      onHeartbeat: (details) => beats.push(details as { failing: unknown }),
    }),
    CancelledFailure,
  )
  assert.deepEqual(
    beats.filter(({ failing }) => failing !== null),
    [],
  )
})

test('an activity knows its attempt and its workflow', async () => {
  const work = activity(async (_: undefined, { attempt, owner }) => ({ attempt, owner }))
  assert.deepEqual(await inActivity(() => work(undefined), { attempt: 4 }), {
    attempt: 4,
    owner: { owner: 'test', ownerRun: '00000000-0000-0000-0000-000000000000' },
  })
})

// The story: a step of an episode fails, and a person resets its activity. The server counts the attempts from 1 again. A fence made
// from them would fall, the sandbox would refuse the step, and the refusal would be taken for a deed of the agent.
test('the order of attempts rises, also after a person resets the activity and its heartbeats', async () => {
  const play = async (options: Parameters<typeof inActivity>[1]) => {
    const beats: { order: number }[] = []
    let order = 0
    const work = activity(async (_: undefined, scope) => {
      order = scope.order
      return busy()
    })
    const onHeartbeat = (details: unknown): void => void beats.push(details as { order: number })
    await assert.rejects(inActivity(() => work(undefined), { ...options, onHeartbeat }))
    assert.equal(beats.at(-1)?.order, order, 'the next attempt reads it from the heartbeat')
    return order
  }
  assert.equal(await play({}), 1)
  assert.equal(await play({ attempt: 2, afterMs: 1_000, heartbeatDetails: { order: 1 } }), 2)
  assert.equal(await play({ attempt: 3, afterMs: 3_000, heartbeatDetails: { order: 2 } }), 3)
  // Reset while the third attempt ran: the server gave the second number again.
  assert.equal(await play({ attempt: 2, afterMs: 25_000, heartbeatDetails: { order: 3 } }), 4)
  // Reset while it backed off.
  assert.equal(await play({ attempt: 1, afterMs: 30_000, heartbeatDetails: { order: 4 } }), 5)
  const cleared = await play({ attempt: 1, afterMs: 40_000 })
  assert.ok(cleared > 5 && cleared < 999, String(cleared))
  assert.equal(await play({ attempt: 2, afterMs: 45_000, heartbeatDetails: { order: cleared } }), cleared + 1)
})
