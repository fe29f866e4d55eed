/**
 * The story: a network translates IPv6 below a prefix of its own to IPv4 (NAT64). A name that resolves to such an address leads to a
 * private IPv4 address, although it looks public.
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'

import { closeServer, listenOnLoopback } from '../../../test/support/loopback.ts'
import { dialPublic, EgressRefused } from './open-upstream.ts'

const PRIVATE = '2a01:db8::10.0.0.1'
const PUBLIC = '2a01:db8::93.184.215.14'
const PREFIX = ['192.0.0.170', '2a01:db8::c000:aa']

interface World {
  asked: string[]
  dialled: string[]
  dial(name: string): Promise<void>
}

/** Names lead to addresses; `prefix` is what the name servers say of NAT64. */
async function newWorld(
  t: TestContext,
  names: Record<string, string[]>,
  prefix: () => Promise<string[]>,
): Promise<World> {
  const server = createServer()
  const port = await listenOnLoopback(server)
  t.after(() => closeServer(server))
  const world: Omit<World, 'dial'> = { asked: [], dialled: [] }
  const resolve = (name: string): Promise<string[]> => {
    world.asked.push(name)
    return name === 'ipv4only.arpa' ? prefix() : Promise.resolve(names[name] ?? [])
  }
  return {
    ...world,
    async dial(name) {
      const dial = ({ address }: { address: string }) => {
        world.dialled.push(address)
        return connect(port, '127.0.0.1')
      }
      const socket = await dialPublic({ host: name, port: 443 }, { resolve, dial })
      socket.destroy()
    },
  }
}

test('with a NAT64 prefix only addresses that translate to public ones are dialled, and the prefix is looked up once', async (t) => {
  const names = { private: [PRIVATE], public: [PUBLIC], both: [PRIVATE, PUBLIC], other: ['2606:4700::1111'] }
  const world = await newWorld(t, names, () => Promise.resolve(PREFIX))
  await assert.rejects(world.dial('private'), EgressRefused)
  for (const name of ['public', 'both', 'other', PUBLIC]) await world.dial(name)
  await assert.rejects(world.dial(PRIVATE), EgressRefused)
  assert.deepEqual(world.dialled, [PUBLIC, PUBLIC, '2606:4700::1111', PUBLIC])
  assert.equal(world.asked.filter((name) => name === 'ipv4only.arpa').length, 1)
})

test('without NAT64, or without an answer about it, addresses count as they are', async (t) => {
  for (const prefix of [() => Promise.resolve(['192.0.0.170']), () => Promise.reject(new Error('silent'))]) {
    const world = await newWorld(t, { some: [PRIVATE] }, prefix)
    await world.dial('some')
    await world.dial('some')
    assert.deepEqual(world.dialled, [PRIVATE, PRIVATE])
    assert.equal(world.asked.filter((name) => name === 'ipv4only.arpa').length, 1)
  }
})

test('a name with only IPv4 or closed addresses causes no look-up of NAT64', async (t) => {
  const world = await newWorld(t, { v4: ['93.184.215.14'], closed: ['fd00::1', '::1'] }, () => Promise.resolve(PREFIX))
  await world.dial('v4')
  await assert.rejects(world.dial('closed'), EgressRefused)
  assert.deepEqual(world.asked, ['v4', 'closed'])
})

test('the last known prefix stays when the name servers stop answering', async (t) => {
  t.mock.method(performance, 'now', () => now)
  let now = 1_000_000
  let isSilent = false
  const world = await newWorld(t, { private: [PRIVATE] }, () =>
    isSilent ? Promise.reject(new Error('silent')) : Promise.resolve(PREFIX),
  )
  await assert.rejects(world.dial('private'), EgressRefused)
  isSilent = true
  for (let hours = 0; hours < 3; hours += 1) {
    now += 3_600_000
    await assert.rejects(world.dial('private'), EgressRefused)
  }
  assert.equal(world.asked.filter((name) => name === 'ipv4only.arpa').length, 4)
})
