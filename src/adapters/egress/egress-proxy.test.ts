/**
 * The story: a name is checked, then asked for once more to connect, and the name server has changed its answer in between (DNS
 * rebinding). What was checked must be what is dialled, by the product's own resolver and its own TCP.
 */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Asked } from '../../../test/support/egress/ask-through-proxy.ts'
import { inOwnInternet, withoutOwnInternet } from '../../../test/support/egress/own-internet.ts'

const script = join(import.meta.dirname, '../../../test/support/egress/ask-through-proxy.ts')

/** The last one: a silent name server holds the look-ups of `getaddrinfo`, of which a process makes two at once. */
test('a hostile name is looked up once, and the proxy dials only the checked address while other look-ups continue', {
  skip: withoutOwnInternet,
}, async () => {
  const { answers, lookUps, inside, openThen } = await inOwnInternet<Asked>(script)
  assert.deepEqual(answers, {
    'GET rebound-1': '200 public',
    'GET inside': '403 the name resolves to no public address',
    'GET mixed': '200 public',
    'GET own': '403 the name resolves to no public address',
    'GET unknown': '502 the name is not known: ENOTFOUND',
    'GET translated': '403 the name resolves to no public address',
    'CONNECT rebound-2': '200 public',
    'CONNECT inside': '403',
    'CONNECT mixed': '200 public',
    'CONNECT own': '403',
  })
  const once = ['rebound-1', 'inside', 'mixed', 'own', 'unknown', 'translated', 'rebound-2'].map(
    (name) => `${name}.example.org`,
  )
  const twice = ['inside', 'mixed', 'own'].map((name) => `${name}.example.org`)
  assert.deepEqual(lookUps, Object.fromEntries(once.map((name) => [name, twice.includes(name) ? 2 : 1])))
  assert.equal(inside, 0, 'a connection reached the host itself')
  assert.equal(openThen, 12, 'a look-up of the process waited for those of the proxy')
})
