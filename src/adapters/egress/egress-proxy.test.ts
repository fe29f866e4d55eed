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

test('names that change their answer, lead inside or to both: one look-up each, and only the checked address is dialled', {
  skip: withoutOwnInternet,
}, async () => {
  const { answers, lookUps, inside } = await inOwnInternet<Asked>(script)
  assert.deepEqual(answers, {
    'GET rebound-1': '200 public',
    'GET inside': '403 the name leads to no public address',
    'GET mixed': '200 public',
    'GET unknown': '502 the name is not known: ENOTFOUND',
    'CONNECT rebound-2': '200 public',
    'CONNECT inside': '403',
    'CONNECT mixed': '200 public',
  })
  assert.deepEqual(
    Object.fromEntries(['rebound-1', 'rebound-2'].map((name) => [name, lookUps[`${name}.example.org`]])),
    { 'rebound-1': 1, 'rebound-2': 1 },
  )
  assert.equal(inside, 0, 'a connection reached the host itself')
})
