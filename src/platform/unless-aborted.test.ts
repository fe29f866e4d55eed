import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { unlessAborted } from './unless-aborted.ts'

test('work is abandoned with the reason of an abort, before or during it, and no listener stays', async () => {
  const interrupt = new AbortController()
  const endless = new Promise<never>(() => undefined)
  assert.equal(await unlessAborted(Promise.resolve(5), interrupt.signal), 5)
  const abandoned = unlessAborted(endless, interrupt.signal)
  interrupt.abort(new Error('SIGINT'))
  await assert.rejects(abandoned, /SIGINT/)
  await assert.rejects(unlessAborted(endless, interrupt.signal), /SIGINT/)
  await assert.rejects(unlessAborted(Promise.reject(new Error('own')), new AbortController().signal), /own/)
  assert.deepEqual(getEventListeners(interrupt.signal, 'abort'), [])
})
