/**
 * The story: an agent may end its relay, and a new one is opened for the next turn. With the relay went the proxy and what it had
 * counted, so an agent that killed its relay now and then had no limit, and left no trace of what it was refused.
 */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { type Duplex, duplexPair } from 'node:stream'
import { type TestContext, test } from 'node:test'

import { closeServer, listenOnLoopback } from '../../../../../test/support/loopback.ts'
import { createRelayPool, type RelayPool, type RelayPoolOptions } from './relay-pool.ts'

const NAME = 'lh-sandbox'
const REQUEST = { name: NAME, allowedHosts: ['a.example.org'] }
const BODY = 'x'.repeat(30_000)
const GET = 'GET http://a.example.org/ HTTP/1.1\r\nHost: a\r\n\r\n'

/** A relay that the test plays: what it says, and what it was told for each connection. */
interface PlayedRelay {
  say(kind: string, id: number, payload?: string | Buffer): void
  told(id: number): string
  isClosed(id: number): boolean
  isReady(): boolean
  end(): void
}

interface World {
  pool: RelayPool
  relays: PlayedRelay[]
  logged: number
}

interface WorldOptions {
  limits?: RelayPoolOptions['limits']
  /** @default far more than a relay of a test takes */
  readyMs?: number
  /** How many relays say that they are ready by themselves. @default all */
  readyRelays?: number
}

async function newWorld(
  t: TestContext,
  { limits = {}, readyMs = 20_000, readyRelays = Number.POSITIVE_INFINITY }: WorldOptions = {},
): Promise<World> {
  const server = createServer((_request, response) => response.end(BODY))
  const port = await listenOnLoopback(server)
  t.after(() => closeServer(server))
  const world: World = { relays: [], logged: 0, pool: undefined as unknown as RelayPool }
  world.pool = createRelayPool({
    exec: () => {
      const [ours, theirs] = duplexPair()
      const relay = play(theirs)
      if (world.relays.length < readyRelays) relay.say('R', 0)
      world.relays.push(relay)
      return Promise.resolve(ours)
    },
    log: () => void (world.logged += 1),
    limits,
    readyMs,
    resolve: () => Promise.resolve(['93.184.215.14']),
    dial: () => connect(port, '127.0.0.1'),
  })
  t.after(() => world.pool.dispose())
  return world
}

function play(stream: Duplex): PlayedRelay {
  const told = new Map<number, string>()
  const closed = new Set<number>()
  let input = Buffer.alloc(0)
  stream.on('data', (chunk: Buffer) => {
    input = Buffer.concat([input, chunk])
    for (let size = sizeOf(input); size <= input.length; size = sizeOf(input)) {
      const [kind, id] = [input.toString('latin1', 0, 1), input.readUInt32BE(1)]
      told.set(id, (told.get(id) ?? '') + input.toString('latin1', 9, size))
      if (kind !== 'D') closed.add(id)
      input = input.subarray(size)
    }
  })
  let isReady = false
  const relay: PlayedRelay = {
    say(kind, id, payload = '') {
      isReady ||= kind === 'R'
      stream.write(framed(kind, id, Buffer.from(payload)))
    },
    told: (id) => told.get(id) ?? '',
    isClosed: (id) => closed.has(id),
    isReady: () => isReady,
    end: () => void stream.destroy(),
  }
  return relay
}

function sizeOf(input: Buffer): number {
  return input.length < 9 ? Number.POSITIVE_INFINITY : 9 + input.readUInt32BE(5)
}

/** A frame of the relay in one of the engine's. */
function framed(kind: string, id: number, payload: Buffer): Buffer {
  const header = Buffer.alloc(17)
  header.writeUInt8(1)
  header.writeUInt32BE(9 + payload.length, 4)
  header.write(kind, 8, 'latin1')
  header.writeUInt32BE(id, 9)
  header.writeUInt32BE(payload.length, 13)
  return Buffer.concat([header, payload])
}

/** What the proxy answers on a new connection, once it has closed it. */
async function ask(relay: PlayedRelay | undefined, id: number, bytes: string): Promise<string> {
  assert.ok(relay !== undefined)
  relay.say('O', id)
  relay.say('D', id, bytes)
  await until(() => relay.isClosed(id), `connection ${id} to end, told ${relay.told(id).slice(0, 200)}`)
  return relay.told(id)
}

async function until(isTrue: () => boolean, what: string): Promise<void> {
  for (let polls = 0; polls < 500; polls += 1) {
    if (isTrue()) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  assert.fail(`Expected ${what}`)
}

test('limits, counts and log lines belong to the sandbox although its agent restarts the relay repeatedly', async (t) => {
  const world = await newWorld(t, { limits: { totalBytes: 100_000 } })
  const answers: string[] = []
  for (let round = 0; round < 6; round += 1) {
    await world.pool.ensure(REQUEST)
    const relay = world.relays[round]
    answers.push((await ask(relay, 1, GET)).slice(9, 12))
    for (let refused = 0; refused < 20; refused += 1) {
      assert.match(await ask(relay, 2 + refused, 'CONNECT b.example.org:443 HTTP/1.1\r\n\r\n'), / 403 /)
    }
    await endRelay(world)
  }
  // The fourth is cut off within its body, wherever that may be.
  assert.deepEqual(answers.toSpliced(3, 1), ['200', '200', '200', '403', '403'])
  const use = world.pool.takeUse(NAME)
  assert.deepEqual([use?.opened, use?.refused], [4, 122])
  assert.equal(world.logged, 100)
  world.pool.disconnect(NAME)
  await world.pool.ensure(REQUEST)
  assert.match(await ask(world.relays.at(-1), 1, GET), / 200 /, 'a later sandbox of that name has limits of its own')
})

/** A relay that has asked for a tunnel as its first connection. */
async function withTunnel(t: TestContext, host: string): Promise<PlayedRelay | undefined> {
  const world = await newWorld(t)
  await world.pool.ensure(REQUEST)
  const [relay] = world.relays
  relay?.say('O', 1)
  relay?.say('D', 1, `CONNECT ${host}:443 HTTP/1.1\r\n\r\n`)
  return relay
}

async function assertOthersGoOn(relay: PlayedRelay | undefined): Promise<void> {
  for (let count = 0; count < 100; count += 1) relay?.say('D', 1, Buffer.alloc(16 * 1024))
  assert.match(await ask(relay, 2, GET), / 200 /)
}

test('other connections of the sandbox continue when a program sends on a refused tunnel', async (t) => {
  const relay = await withTunnel(t, 'b.example.org')
  await assertOthersGoOn(relay)
})

test('other connections of the sandbox continue when a program sends on a tunnel whose server has left', async (t) => {
  const relay = await withTunnel(t, 'a.example.org')
  await until(() => relay?.told(1).includes('200') === true, 'a tunnel')
  relay?.say('D', 1, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  await until(() => relay?.isClosed(1) === true, 'the end of the server')
  await assertOthersGoOn(relay)
})

test('idle connections end after the timeout: half a request, a refused tunnel, an abandoned tunnel', async (t) => {
  const world = await newWorld(t, { limits: { idleMs: 200, connections: 2 } })
  await world.pool.ensure(REQUEST)
  const [relay] = world.relays
  const starts = [
    '',
    'GET http://a.exam',
    'CONNECT b.example.org:443 HTTP/1.1\r\n\r\n',
    `CONNECT a.example.org:80 HTTP/1.1\r\n\r\n`,
  ]
  // As many as the proxy holds: it takes another one when they are gone.
  for (const [id, bytes] of starts.entries()) {
    relay?.say('O', id + 1)
    if (bytes !== '') relay?.say('D', id + 1, bytes)
  }
  await until(() => relay?.told(4).includes('200') === true, 'a tunnel')
  relay?.say('D', 4, 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  let id = 10
  for (let isServed = false; !isServed; id += 1) {
    assert.ok(id < 200, 'the connections are still held')
    isServed = (await ask(relay, id, GET)).includes(' 200 ')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
})

/** Far longer than a turn needs that waits for nothing. */
const soon = () => new Promise<'waits'>((resolve) => setTimeout(() => resolve('waits'), 2000))

async function endRelay({ relays }: World): Promise<void> {
  relays.at(-1)?.end()
  await new Promise((resolve) => setTimeout(resolve, 10))
}

const turn = (world: World) => Promise.race([world.pool.ensure(REQUEST).then(() => 'began'), soon()])

test('one turn waits for a relay that the agent broke for good, and the next turns begin at once', async (t) => {
  const world = await newWorld(t, { readyMs: 50, readyRelays: 1 })
  await world.pool.open(REQUEST)
  await endRelay(world)
  await assert.rejects(world.pool.ensure(REQUEST), /not ready/)
  for (let turns = 0; turns < 20; turns += 1) assert.equal(await turn(world), 'began')
  assert.ok(world.relays.length <= 4, `${world.relays.length} relays`)
})

test('a relay that is ready after its turn has begun serves the rest of it', async (t) => {
  const world = await newWorld(t, { readyMs: 300, readyRelays: 1 })
  await world.pool.open(REQUEST)
  await endRelay(world)
  await assert.rejects(world.pool.ensure(REQUEST))
  assert.equal(await turn(world), 'began')
  const late = world.relays.at(-1)
  late?.say('R', 0)
  assert.match(await ask(late, 1, GET), / 200 /)
  assert.equal(await turn(world), 'began')
  assert.equal(world.relays.at(-1), late, 'no further relay was tried')
})

test('turns wait for repeatedly late relays only as long as one relay may take in total', async (t) => {
  const world = await newWorld(t, { readyMs: 300, readyRelays: 1 })
  await world.pool.open(REQUEST)
  let began = ''
  for (let turns = 1; turns < 20 && began !== 'at once'; turns += 1) {
    await endRelay(world)
    const begins = world.pool.ensure(REQUEST).then(
      () => (world.relays[turns]?.isReady() === true ? 'late' : 'at once'),
      () => 'cut short',
    )
    await new Promise((resolve) => setTimeout(resolve, 100))
    world.relays[turns]?.say('R', 0)
    began = await begins
  }
  assert.equal(began, 'at once')
})

test('a restarted worker waits for a broken relay in its first turn only', async (t) => {
  const world = await newWorld(t, { readyMs: 50, readyRelays: 0 })
  await assert.rejects(world.pool.ensure(REQUEST))
  assert.equal(await turn(world), 'began')
})

test('opening a sandbox waits for its first relay and fails each time without one', async (t) => {
  const world = await newWorld(t, { readyMs: 50, readyRelays: 0 })
  await assert.rejects(world.pool.open(REQUEST), { code: 'Sandbox.EngineUnavailable' })
  await assert.rejects(world.pool.open(REQUEST), { code: 'Sandbox.EngineUnavailable' })
})
