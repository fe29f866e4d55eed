import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createKeyedQueue, createSlots } from './limiter.ts'

const never = new AbortController().signal

test('a limiter of one runs work in order, and a failure releases its slot', async () => {
  const slots = createSlots(1)
  const seen: string[] = []
  const runs = ['a', 'b', 'c'].map((name) =>
    slots.use(async () => {
      seen.push(`${name} begins`)
      await Promise.resolve()
      seen.push(`${name} ends`)
      if (name === 'a') throw new Error('a failed')
    }, never),
  )
  const ends = await Promise.allSettled(runs)
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['rejected', 'fulfilled', 'fulfilled'],
  )
  assert.deepEqual(seen, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

test('work that is aborted while it waits never starts, and the next one gets the slot', async () => {
  const slots = createSlots(1)
  const { promise: held, resolve: leave } = Promise.withResolvers<void>()
  const first = slots.use(() => held, never)
  const controller = new AbortController()
  let hasBegun = false
  const aborted = slots.use(async () => {
    hasBegun = true
  }, controller.signal)
  const third = slots.use(async () => 'third', never)
  const reason = new Error('cancelled')
  controller.abort(reason)
  // Before the slot is free: a cancelled caller does not wait for the work of others.
  await assert.rejects(aborted, (error) => error === reason)
  leave()
  await first
  assert.equal(await third, 'third')
  assert.equal(hasBegun, false)
  assert.equal(await slots.use(async () => 'free again', never), 'free again')
})

test('work that is already aborted does not join the queue', async () => {
  const slots = createSlots(1)
  await assert.rejects(
    slots.use(async () => 'done', AbortSignal.abort(new Error('late'))),
    /late/,
  )
  assert.equal(await slots.use(async () => 'done'), 'done')
})

test('work of one key waits for the previous work, even after a failure, and other keys do not wait', async () => {
  const queue = createKeyedQueue()
  const order: string[] = []
  const gate = Promise.withResolvers<void>()
  const first = queue.run('a', async () => {
    await gate.promise
    order.push('a1')
    throw new Error('a1 failed')
  })
  const second = queue.run('a', async () => order.push('a2'))
  await queue.run('b', async () => order.push('b1'))
  gate.resolve()
  await assert.rejects(first, /a1 failed/)
  await second
  assert.deepEqual(order, ['b1', 'a1', 'a2'])
})
