import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renewing } from './episode-world.ts'

const signal = new AbortController().signal

test('a long step renews its lease repeatedly, also after a failed renewal, and not after its end', async () => {
  let renewals = 0
  const { promise: enough, resolve } = Promise.withResolvers<string>()
  const renew = async (): Promise<void> => {
    renewals += 1
    if (renewals === 3) resolve('done')
    if (renewals === 1) throw new Error('the engine is away')
  }
  assert.equal(await renewing({ renew, everyMs: 1, signal }, () => enough), 'done')
  await new Promise((later) => setTimeout(later, 20))
  assert.equal(renewals, 3)
})

test('a hanging renewal is not repeated, and the step continues', async () => {
  let renewals = 0
  const { promise: begun, resolve } = Promise.withResolvers<void>()
  const renew = (): Promise<void> => {
    renewals += 1
    resolve()
    return new Promise(() => undefined)
  }
  const work = async (): Promise<string> => {
    await begun
    await new Promise((later) => setTimeout(later, 20))
    return 'done'
  }
  assert.equal(await renewing({ renew, everyMs: 1, signal }, work), 'done')
  assert.equal(renewals, 1)
})

test('a failing step throws its error and ends the renewals', async () => {
  const failing = renewing({ renew: async () => assert.fail(), everyMs: 60_000, signal }, async () => {
    throw new Error('sampling failed')
  })
  await assert.rejects(failing, /sampling failed/)
})
