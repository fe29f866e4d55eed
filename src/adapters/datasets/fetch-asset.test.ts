import assert from 'node:assert/strict'
import { createServer, type RequestListener, type Server } from 'node:http'
import { type AddressInfo, connect, createServer as createTcpServer, Socket } from 'node:net'
import { type TestContext, test } from 'node:test'

import { isLonghaulError } from '../../contracts/errors.ts'
import { fetchAssets, type FetchAssetOptions } from './fetch-asset.ts'

const never = new AbortController().signal
const PUBLIC = '93.184.215.14'
const NAMES: Record<string, string[]> = {
  'files.example.org': [PUBLIC],
  'inside.example.org': ['10.0.0.7', '127.0.0.1', '::ffff:127.0.0.1'],
  'mixed.example.org': ['169.254.169.254', PUBLIC],
}

/** The only file of a row. */
async function fetchAsset(
  asset: { path: string; url: string | null },
  signal: AbortSignal,
  options: FetchAssetOptions,
): Promise<Uint8Array | null> {
  const [found] = await fetchAssets([asset], signal, options)
  return found?.bytes ?? null
}

interface World {
  options: FetchAssetOptions
  dialled: string[]
  asked: string[]
}

/** Names and addresses are checked for real; a connection to a public address ends at a server of the test. */
async function serve(t: TestContext, server: Server | ReturnType<typeof createTcpServer>): Promise<World> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const world: World = { dialled: [], asked: [], options: {} }
  world.options = {
    inside: [],
    resolve: (name) => {
      world.asked.push(name)
      return Promise.resolve(NAMES[name] ?? [])
    },
    dial: ({ address, port }) => {
      world.dialled.push(`${address}:${port}`)
      return connect((server.address() as AddressInfo).port, '127.0.0.1')
    },
  }
  return world
}

const web = (t: TestContext, listener: RequestListener): Promise<World> => serve(t, createServer(listener))

async function reasonOf(url: string, { options }: World): Promise<string> {
  const error = await fetchAsset({ path: 'a.png', url }, never, options).then(
    () => null,
    (reason: unknown) => reason,
  )
  assert.ok(isLonghaulError(error), 'it was fetched')
  assert.equal(error.code, 'Grading.Failed')
  return String(error.details['reason'])
}

test('a file at a public address: its bytes; a row that says no address has none', async (t) => {
  const world = await web(t, (request, response) => response.end(`${request.headers.host} ${request.url}`))
  const bytes = await fetchAsset({ path: 'a.png', url: 'http://files.example.org:8080/a?b=1' }, never, world.options)
  assert.equal(Buffer.from(bytes ?? []).toString(), 'files.example.org:8080 /a?b=1')
  assert.deepEqual(world.dialled, [`${PUBLIC}:8080`])
  assert.equal(await fetchAsset({ path: 'a.png', url: null }, never, {}), null)
})

test('private addresses, by number and by name, and other protocols: refused before a connection', async (t) => {
  const world = await web(t, (_, response) => response.end('secret'))
  for (const url of [
    'http://127.0.0.1/a',
    'http://[::1]:80/a',
    'http://[::ffff:10.0.0.1]/a',
    'http://169.254.169.254/latest/meta-data',
    'http://2130706433/a',
    'http://0x7f.1/a',
    'http://017700000001/a',
    'http://127.0.0.1./a',
    'http://\uff11\uff12\uff17.0.0.1/a',
    'http://0/a',
    'http://[::]/a',
    'http://[64:ff9b::7f00:1]/a',
    'http://[2002:7f00:1::]/a',
    'http://files.example.org@127.0.0.1/a',
    'http://inside.example.org/a',
  ]) {
    assert.match(await reasonOf(url, world), /no public address/, url)
  }
  for (const url of ['file:///etc/passwd', 'ftp://files.example.org/a', 'data:text/plain,x']) {
    assert.match(await reasonOf(url, world), /no protocol/, url)
  }
  assert.deepEqual(world.dialled, [])
})

test('a name with a private and a public address: only the public one is dialled, after one look-up', async (t) => {
  const world = await web(t, (_, response) => response.end('x'))
  assert.ok(await fetchAsset({ path: 'a', url: 'http://mixed.example.org/' }, never, world.options))
  assert.deepEqual([world.asked, world.dialled], [['mixed.example.org'], [`${PUBLIC}:80`]])
})

test('redirections are followed where they lead outside, each checked anew, and not without end', async (t) => {
  const world = await web(t, (request, response) => {
    const to = { '/in': 'http://127.0.0.1/x', '/meta': 'http://inside.example.org/', '/file': 'file:///etc/passwd' }
    const location = to[request.url as keyof typeof to] ?? (request.url === '/round' ? '/round' : '/end')
    if (request.url === '/end') return response.end('found')
    response.writeHead(302, { location }).end()
  })
  const at = (path: string): string => `http://files.example.org${path}`
  const found = await fetchAsset({ path: 'a', url: at('/start') }, never, world.options)
  assert.equal(Buffer.from(found ?? []).toString(), 'found')
  assert.match(await reasonOf(at('/in'), world), /no public address/)
  assert.match(await reasonOf(at('/meta'), world), /no public address/)
  assert.match(await reasonOf(at('/file'), world), /no protocol/)
  assert.match(await reasonOf(at('/round'), world), /redirections/)
})

test('a body without end is cut off at the cap, not read first', async (t) => {
  let written = 0
  const world = await web(t, (_, response) => {
    const write = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024))) written += 64 * 1024
    }
    response.on('drain', write)
    response.on('error', () => undefined)
    write()
  })
  world.options = { ...world.options, maxBytes: 1_000_000 }
  assert.match(await reasonOf('http://files.example.org/', world), /more than 1000000 bytes/)
  assert.ok(written < 100_000_000)
})

/** Servers that are none. */
for (const [what, bytes] of [
  ['a broken status line', 'HTTP/1.1 banana\r\n\r\n'],
  ['a flood of headers', `HTTP/1.1 200 OK\r\n${'a: b\r\n'.repeat(20_000)}\r\n`],
  ['a reset in the middle', 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort'],
  ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n'],
] as const) {
  test(`${what}: the file cannot be had, and nothing else happens`, async (t) => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => {
        socket.write(bytes)
        setTimeout(() => socket.resetAndDestroy(), 20)
      })
    })
    const world = await serve(t, server)
    assert.notEqual(await reasonOf('http://files.example.org/', world), '')
  })
}

test('a host that the operator names may be inside', async (t) => {
  const world = await web(t, (_, response) => response.end('own'))
  const options = { ...world.options, inside: ['127.0.0.1:99'] }
  assert.ok(await fetchAsset({ path: 'a', url: 'http://127.0.0.1:99/' }, never, options))
  assert.match(await reasonOf('http://127.0.0.1:98/', { ...world, options }), /no public address/)
})

for (const [what, bytes] of [
  ['in pieces of a byte', `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5000)}0\r\n\r\n`],
  [
    'behind words that say nothing',
    `${'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(5000)}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok`,
  ],
] as const) {
  test(`a file that comes ${what}: small pieces count as larger ones do`, async (t) => {
    const server = createTcpServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => socket.end(bytes))
    })
    const world = await serve(t, server)
    world.options = { ...world.options, maxBytes: 1_000_000 }
    assert.match(await reasonOf('http://files.example.org/', world), /more than 1000000 bytes/)
  })
}

test('a row with many large files: few are fetched at once, together they have one cap, and a failure ends the others', async (t) => {
  let [open, mostOpen, served] = [0, 0, 0]
  const world = await web(t, (_, response) => {
    open += 1
    served += 1
    mostOpen = Math.max(mostOpen, open)
    response.on('close', () => (open -= 1))
    setTimeout(() => response.end(Buffer.alloc(100_000)), 5)
  })
  world.options = { ...world.options, maxBytes: 1_050_000 }
  const row = (count: number): { path: string; url: string | null }[] =>
    Array.from({ length: count }, (_, index) => ({ path: `${index}.png`, url: `http://files.example.org/${index}` }))
  const found = await fetchAssets([{ path: 'none', url: null }, ...row(10)], never, world.options)
  assert.deepEqual(
    found.map(({ path, bytes }) => [path, bytes.length]),
    row(10).map(({ path }) => [path, 100_000]),
  )
  await assert.rejects(fetchAssets(row(200), never, world.options), { code: 'Grading.Failed' })
  assert.ok(mostOpen <= 4, `${mostOpen} at once`)
  assert.ok(served < 40, `${served} files were asked for`)
})

for (const [where, url] of [
  ['a host that takes no connection', 'http://silent.example.org/'],
  ['a host that does not shake hands', 'https://files.example.org/'],
] as const) {
  test(`a grading that is cancelled while it waits for ${where}: it ends at once, and its connection`, async (t) => {
    const left = Promise.withResolvers<void>()
    const server = createTcpServer((socket) =>
      socket
        .on('error', () => undefined)
        .on('close', () => left.resolve())
        .resume(),
    )
    const world = await serve(t, server)
    const cancelled = new AbortController()
    const { resolve, dial } = world.options
    world.options.resolve = async (name) => (name.startsWith('silent') ? [PUBLIC] : ((await resolve?.(name)) ?? []))
    world.options.dial = (at) => {
      setTimeout(() => cancelled.abort(new Error('cancelled')), 50)
      const socket = url.startsWith('https') ? dial?.(at) : new Socket()
      assert.ok(socket !== undefined)
      return socket.on('close', () => left.resolve())
    }
    const fetching = fetchAsset({ path: 'a', url }, cancelled.signal, world.options)
    const late = setTimeout(() => assert.fail('it was waited for'), 5_000)
    await assert.rejects(fetching, /cancelled/)
    await left.promise
    clearTimeout(late)
  })
}
