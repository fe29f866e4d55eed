/**
 * The story: a server that an agent may reach answered with the status 099. The answer could not be passed on, the exception found
 * no listener, and the worker ended with all its episodes. No peer of the proxy may do that, on either side.
 */
import assert from 'node:assert/strict'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { duplexPair, type Duplex } from 'node:stream'
import { after, before, test } from 'node:test'

import { createEgressProxy, type EgressProxy } from './egress-proxy.ts'
import type { EgressLimits } from './metered-upstreams.ts'

let server: Server
let reply: (socket: Socket) => void
const failures: unknown[] = []
/** Of the first exception that found no listener: a test that waits for a connection to end would wait for ever. */
const broken = Promise.withResolvers<never>()
broken.promise.catch(() => undefined)
const onFailure = (error: unknown): void => {
  failures.push(error)
  broken.reject(error)
}

before(async () => {
  process.on('uncaughtException', onFailure)
  process.on('unhandledRejection', onFailure)
  server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => reply(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})

after(() => {
  process.off('uncaughtException', onFailure)
  process.off('unhandledRejection', onFailure)
  server.close()
})

interface World {
  proxy: EgressProxy
  dialled(): number
  told: number
}

function newWorld(limits: Partial<EgressLimits> = {}): World {
  let dialled = 0
  const world: World = {
    told: 0,
    dialled: () => dialled,
    proxy: createEgressProxy({
      allowed: ['a.example.org'],
      log: () => void (world.told += 1),
      limits: { connections: 4, ...limits },
      resolve: () => Promise.resolve(['93.184.215.14']),
      dial: () => {
        dialled += 1
        return connect((server.address() as AddressInfo).port, '127.0.0.1')
      },
    }),
  }
  return world
}

/** What a client is told that sends these bytes and waits for the end of its connection. */
async function ask({ proxy }: World, bytes: string): Promise<string> {
  const [client, side] = duplexPair()
  proxy.accept(side)
  return readAll(client, bytes)
}

async function readAll(client: Duplex, bytes: string): Promise<string> {
  const chunks: Buffer[] = []
  client.on('data', (chunk: Buffer) => chunks.push(chunk))
  client.on('error', () => undefined)
  client.write(bytes)
  await Promise.race([new Promise((resolve) => client.once('close', resolve).once('end', resolve)), broken.promise])
  client.destroy()
  return Buffer.concat(chunks).toString()
}

const GET = 'GET http://a.example.org/ HTTP/1.1\r\nHost: a.example.org\r\n\r\n'

const ANSWERS: [what: string, answer: string | Buffer][] = [
  ['a status below all', 'HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n'],
  ['a status of zeros', 'HTTP/1.1 000 \r\n\r\n'],
  ['no status', 'HTTP/1.1 banana\r\n\r\n'],
  ['no HTTP', '\u0000\u0001\u0002\r\n\r\n'],
  ['a header that no answer may hold', Buffer.from('HTTP/1.1 200 OK\r\nx: a\u0001b\r\n\r\n', 'latin1')],
  [
    'letters beyond ASCII',
    Buffer.from('HTTP/1.1 200 \u00fc\r\nx: \u00fc\u00ff\r\nContent-Length: 0\r\n\r\n', 'latin1'),
  ],
  ['a flood of headers', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(50_000)}\r\n`],
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nxxxx'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello'],
  ['a broken chunk', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello'],
  ['a body that ends early', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort'],
  ['information without end', `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(2000)}HTTP/1.1 099 x\r\n\r\n`],
]

for (const [what, bytes] of ANSWERS) {
  for (const ending of ['end', 'reset'] as const) {
    test(`a server that answers with ${what}, then its ${ending}: it ends the client's connection only`, async () => {
      const world = newWorld()
      reply = (socket) => {
        socket.write(bytes)
        setTimeout(() => (ending === 'end' ? socket.end() : socket.resetAndDestroy()), 10)
      }
      await ask(world, GET)
      reply = (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      assert.match(await ask(world, GET), /^HTTP\/1\.1 200[^]*ok$/)
      assert.deepEqual(failures, [])
      world.proxy.close()
    })
  }
}

test('clients that leave while their connection opens leave nothing open', async () => {
  const world = newWorld()
  reply = (socket) => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
  for (const bytes of [GET, 'CONNECT a.example.org:443 HTTP/1.1\r\n\r\n']) {
    for (let ticks = 0; ticks < 8; ticks += 1) {
      const [client, side] = duplexPair()
      client.on('error', () => undefined)
      world.proxy.accept(side)
      client.write(bytes)
      for (let tick = 0; tick < ticks; tick += 1) await new Promise((resolve) => setImmediate(resolve))
      client.destroy()
      side.destroy()
    }
  }
  assert.match(await ask(world, GET), /ok$/)
  assert.deepEqual(failures, [])
  world.proxy.close()
})

test('concurrent requests above the limit of connections are refused', async () => {
  const world = newWorld()
  const open: Socket[] = []
  reply = (socket) => void open.push(socket)
  const clients = Array.from({ length: 30 }, () => {
    const [client, side] = duplexPair()
    client.on('error', () => undefined)
    client.resume()
    world.proxy.accept(side)
    client.write(GET)
    return client
  })
  await new Promise((resolve) => setTimeout(resolve, 200))
  assert.equal(world.dialled(), 4)
  for (const client of clients) client.destroy()
  for (const socket of open) socket.destroy()
  world.proxy.close()
})

test('of pipelined requests the first counts, and refusals do not fill the log', async () => {
  const world = newWorld()
  const refused = 'GET http://b.example.org/ HTTP/1.1\r\nHost: b\r\n\r\n'
  await ask(world, refused.repeat(5000))
  for (let count = 0; count < 300; count += 1) await ask(world, refused)
  assert.equal(world.told, 100)
  assert.equal(world.proxy.takeUse().refused, 301)
  assert.deepEqual(failures, [])
  world.proxy.close()
})

test('the chunks of a request without a length stay one request', async () => {
  const world = newWorld()
  const hidden = 'GET /hidden HTTP/1.1\r\nHost: other.example.org\r\n\r\n'
  const body = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`
  for (const method of ['GET', 'DELETE', 'POST']) {
    const received: Buffer[] = []
    reply = (socket) => {
      setTimeout(() => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'), 50)
    }
    const heard = (socket: Socket): void => void socket.on('data', (chunk: Buffer) => received.push(chunk))
    server.once('connection', heard)
    await ask(world, `${method} http://a.example.org/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${body}`)
    const [, sent] = Buffer.concat(received).toString().split('\r\n\r\n', 2)
    assert.match(Buffer.concat(received).toString(), /transfer-encoding: chunked/i, method)
    assert.match(sent ?? '', /^[0-9a-f]+\r\nGET \/hidden/, method)
  }
  world.proxy.close()
})

/** Each costs the worker what a kilobyte does: it reads, counts, frames and writes it. */
const SMALL = 5000
for (const [what, request, answer] of [
  [
    'an answer in pieces of a byte',
    GET,
    `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(SMALL)}0\r\n\r\n`,
  ],
  [
    'an answer behind words that say nothing',
    GET,
    `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(SMALL)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  ],
  [
    'a request in pieces of a byte',
    `POST http://a.example.org/ HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(SMALL)}0\r\n\r\n`,
    null,
  ],
] as const) {
  test(`${what}: small pieces use the sandbox's volume up like large ones`, async () => {
    const world = newWorld({ totalBytes: 1_000_000 })
    reply = (socket) => {
      if (answer !== null) return void socket.end(answer)
      // Once it has all of the request, as an honest server does.
      let heard = ''
      socket.on('data', (chunk: Buffer) => {
        heard += chunk.toString('latin1')
        if (heard.endsWith('0\r\n\r\n')) socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
      })
    }
    assert.doesNotMatch(await ask(world, request), /(?:ok|\r\n0\r\n\r\n)$/, 'the transfer was not stopped')
    assert.match(await ask(world, GET), /^HTTP\/1\.1 403 [^]*more than 1000000 bytes/)
    assert.deepEqual(failures, [])
    world.proxy.close()
  })
}
