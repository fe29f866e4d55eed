import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isLonghaulError } from '../../contracts/errors.ts'
import type { HostDrain } from '../../contracts/hosts.types.ts'
import { createHostDoor } from './host-door.ts'

const DRAIN: HostDrain = { since: '2026-03-04T05:06:07.000Z', moving: false, moveAt: null }

test('a drained host rejects those that wait for a place, and work starts when it is taken back', async () => {
  const door = createHostDoor('node-7')
  const waiting = door.closing()
  door.requireOpen()
  assert.equal(door.obey(null), false)
  assert.equal(door.obey(DRAIN), true)
  assert.ok(waiting.aborted && isLonghaulError(waiting.reason))
  assert.equal(waiting.reason.code, 'Host.Closed')
  assert.match(waiting.reason.message, /node-7.*drained since 2026-03-04T05:06:07/)
  assert.throws(() => door.requireOpen(), /node-7/)
  assert.deepEqual([door.isOpen, door.isMoving], [false, false])
  assert.equal(door.obey({ ...DRAIN, moving: true }), true)
  assert.equal(door.obey({ ...DRAIN, moving: true }), false, 'the same order again')
  assert.equal(door.isMoving, true)

  const order: string[] = []
  const begun = door.whenOpen(new AbortController().signal).then(() => order.push('begins'))
  await Promise.resolve()
  order.push('taken back')
  door.obey(null)
  await begun
  assert.deepEqual(order, ['taken back', 'begins'])
  assert.equal(door.closing().aborted, false)
  door.requireOpen()
})

test('the door of a stopping worker stays closed and rejects with the reason of the signal', async () => {
  const door = createHostDoor('node-7')
  door.stop()
  assert.equal(door.isStopping, true)
  assert.throws(() => door.requireOpen(), /its worker stops/)
  assert.equal(door.obey(null), false)
  assert.equal(door.isOpen, false)
  const over = new AbortController()
  const waiting = door.whenOpen(over.signal)
  over.abort(new Error('no slot is needed any more'))
  await assert.rejects(waiting, /no slot is needed/)
})
