import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CustomSlotSupplier, ActivitySlotInfo, SlotPermit } from '@temporalio/worker'
import { createHostDoor } from '../activities/runtime/host-door.ts'
import { createWorkSlots, placementPauseMs } from './work-slots.ts'

const DRAIN = { since: '2026-03-04T05:06:07.000Z', moving: false, moveAt: null }
const slotInfo: ActivitySlotInfo = { type: 'activity', activityType: 'openSandbox' }

type Supplier = CustomSlotSupplier<ActivitySlotInfo>

const reserve = (supplier: Supplier, signal = new AbortController().signal): Promise<SlotPermit> =>
  supplier.reserveSlot({} as never, signal)

/** What is true for as long as nothing else happens: several turns of the event loop, timers of no length included. */
async function isPending(promise: Promise<unknown>): Promise<boolean> {
  let isOver = false
  void promise.then(() => (isOver = true))
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 1))
  return !isOver
}

test('when all slots are taken the next one is given out as soon as one is returned, used or not', async () => {
  const supplier = createWorkSlots({ slots: 2, door: createHostDoor('x') })
  const [first, second] = [await reserve(supplier), await reserve(supplier)]
  supplier.markSlotUsed({ slotInfo, permit: first })
  const third = reserve(supplier)
  assert.equal(await isPending(third), true)
  supplier.releaseSlot({ permit: second })
  await third
  const fourth = reserve(supplier)
  assert.equal(await isPending(fourth), true)
  supplier.releaseSlot({ slotInfo, permit: first })
  await fourth
  assert.equal(supplier.tryReserveSlot({} as never), null)
})

test('a drained host gives out no slot, a taken-back one does, and a stopping worker releases its poller', async () => {
  const door = createHostDoor('x')
  const supplier = createWorkSlots({ slots: 8, door })
  door.obey(DRAIN)
  const waiting = reserve(supplier)
  assert.equal(await isPending(waiting), true)
  door.obey(null)
  await waiting

  door.stop()
  const over = new AbortController()
  const never = reserve(supplier, over.signal)
  const reason = new Error('shutdown')
  over.abort(reason)
  // Any other error is logged as a fault of ours.
  await assert.rejects(never, (error) => error === reason)
})

test('a host that is drained during its pause gives out no slot', async () => {
  const door = createHostDoor('x')
  const pause = Promise.withResolvers<void>()
  const supplier = createWorkSlots({
    slots: 8,
    door,
    pauseMs: () => {
      door.obey(DRAIN)
      pause.resolve()
      return 1
    },
  })
  const waiting = reserve(supplier)
  await pause.promise
  assert.equal(await isPending(waiting), true)
})

test('a full host requests no work until it has room', async () => {
  let isFull = true
  const supplier = createWorkSlots({ slots: 8, door: createHostDoor('x'), isFull: () => isFull })
  const waiting = reserve(supplier)
  assert.equal(await isPending(waiting), true)
  isFull = false
  await waiting
})

test('the pause before new work grows with the load and the recent openings, within bounds', () => {
  assert.equal(placementPauseMs(0, 0), 0)
  assert.equal(placementPauseMs(0.5, 1), 125)
  assert.equal(placementPauseMs(3, 0), placementPauseMs(1, 0), 'an overbooked host counts as full')
})
