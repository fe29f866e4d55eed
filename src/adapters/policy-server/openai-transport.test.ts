/** What the package and the environment could bring along with an exchange, and peers that mean harm. */
import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer as createSecureServer } from 'node:https'
import { createServer as createSocketServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { useEnvironment } from '../../../test/support/environment.ts'
import { listenOnLoopback } from '../../../test/support/loopback.ts'
import { readWorkerEnvironment } from '../../workers/worker-environment.ts'
import { createAuthority } from '../../../test/support/temporal-gate.ts'
import { connectToServer } from './server-connection.ts'
import { createTransport, HttpFault, type HttpAsk, type TransportOptions } from './openai-transport.ts'

const never = new AbortController().signal
const BOUND = 64 * 1024

async function serve(t: TestContext, listener: RequestListener) {
  const seen: IncomingMessage[] = []
  const server = createServer((request, response) => {
    seen.push(request)
    listener(request, response)
  })
  const port = await listenOnLoopback(server)
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { port, seen, url: `http://127.0.0.1:${port}` }
}

function ask(url: string, changes: Partial<HttpAsk> = {}, options: Partial<TransportOptions> = {}) {
  const transport = createTransport({ base: new URL(url), maxAnswerBytes: BOUND, ...options })
  return transport({ path: '/v1/models', headers: {}, timeoutMs: 3_000, signal: never, ...changes })
}

test('variables of other programs change neither address nor headers and cause no log', async (t) => {
  useEnvironment(t, {
    OPENAI_API_KEY: 'sk-of-another-program',
    OPENAI_ADMIN_KEY: 'sk-admin',
    OPENAI_ORG_ID: 'org-1',
    OPENAI_PROJECT_ID: 'proj-1',
    OPENAI_BASE_URL: 'http://127.0.0.1:9/v1',
    OPENAI_WEBHOOK_SECRET: 'whsec',
    OPENAI_LOG: 'debug',
  })
  const printed: unknown[] = []
  for (const method of ['debug', 'info', 'log', 'warn', 'error'] as const) {
    t.mock.method(console, method, (...line: unknown[]) => printed.push(line))
  }
  const { url, seen } = await serve(t, (_request, response) => response.end('{}'))
  assert.deepEqual(await ask(url), { text: '{}' })
  const headers = seen[0]?.headers ?? {}
  assert.deepEqual(
    ['authorization', 'openai-organization', 'openai-project', 'api-key'].map((name) => headers[name]),
    [undefined, undefined, undefined, undefined],
  )
  assert.deepEqual(printed, [])
})

test('refuses OPENAI_CUSTOM_HEADERS when a worker starts and when a server is called, without its value', (t) => {
  useEnvironment(t, { OPENAI_CUSTOM_HEADERS: 'x-secret: 42' })
  for (const start of [
    () => readWorkerEnvironment({ OPENAI_CUSTOM_HEADERS: 'x-secret: 42' }),
    () => createTransport({ base: new URL('http://127.0.0.1:9') }),
  ]) {
    assert.throws(start, (error: Error & { code?: string }) => {
      assert.equal(error.code, 'Config.Invalid')
      assert.match(error.message, /OPENAI_CUSTOM_HEADERS/)
      assert.doesNotMatch(error.message, /x-secret|42/)
      return true
    })
  }
})

test('does not follow a redirect with request or key', async (t) => {
  const other = await serve(t, (_request, response) => response.end('{}'))
  const { url } = await serve(t, (_request, response) =>
    response.writeHead(307, { location: `${other.url}/stolen` }).end(),
  )
  const answer = await ask(url, { body: { a: 1 } }, { apiKey: 'sk-1' })
  assert.ok('status' in answer)
  assert.deepEqual([answer.status, answer.location], [307, `${other.url}/stolen`])
  assert.equal(other.seen.length, 0)
})

test('bounds every answer: announced, chunked, erroneous or compressed', async (t) => {
  const large = Buffer.alloc(BOUND + 1, ' ')
  const bomb = gzipSync(Buffer.alloc(512 * BOUND, ' '))
  assert.ok(bomb.byteLength < BOUND)
  for (const status of [200, 503]) {
    for (const send of [
      (response) => response.writeHead(status, { 'content-length': large.byteLength }).end(large),
      (response) => response.writeHead(status).write(large, () => response.end()),
      (response) => response.writeHead(status, { 'content-encoding': 'gzip' }).end(bomb),
      (response) => response.writeHead(status, { 'content-encoding': 'gzip, gzip' }).end(gzipSync(bomb)),
    ] satisfies ((response: Parameters<RequestListener>[1]) => unknown)[]) {
      const { url } = await serve(t, (_request, response) => void send(response))
      const outcome = await ask(url).catch((error: unknown) => error)
      // The status of an error is known before its text; the text is then the fault.
      const told = outcome instanceof Error ? outcome.message : (outcome as { text: string }).text
      assert.match(told, /answer over 65536 bytes|exceeds|terminated/)
      assert.ok(told.length < 200)
      if (status === 200) assert.equal((outcome as Error).name, 'HttpFault')
    }
  }
})

test('bounds every stream: of many events or of one endless event', async (t) => {
  for (const piece of ['data: {"choices": []}\n\n', 'data: '.padEnd(64, 'x')]) {
    const { url } = await serve(t, (_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(piece.repeat((2 * BOUND) / piece.length))
    })
    await assert.rejects(ask(url, { fold: () => ({ add: () => undefined, end: () => null }) }), {
      name: 'HttpFault',
      message: /answer over 65536 bytes/,
    })
  }
})

test('requests no compression but reads a compressed answer', async (t) => {
  const { url, seen } = await serve(t, (_request, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{"a":1}')),
  )
  assert.deepEqual(await ask(url), { text: '{"a":1}' })
  assert.equal(seen[0]?.headers['accept-encoding'], 'identity')
})

for (const [title, bytes] of [
  ['another protocol', 'SSH-2.0-OpenSSH_9.2\r\n'],
  ['a status line of letters', 'HTTP/1.1 abc OK\r\n\r\n'],
  ['a header without end', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(1 << 20)}`],
  ['two lengths', 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}'],
  ['a torn body', 'HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{}'],
  ['a torn chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{}'],
  ['nothing', ''],
] as const) {
  test(`${title} instead of an answer is an error with a short text`, async (t) => {
    const server = createSocketServer((socket) => {
      socket.on('error', () => undefined)
      socket.once('data', () => socket.end(bytes))
    })
    const port = await listenOnLoopback(server)
    t.after(() => server.close())
    await assert.rejects(ask(`http://127.0.0.1:${port}`), (error: Error) => {
      assert.equal(error.name, 'HttpFault')
      assert.ok(error.message.length > 0 && error.message.length < 200, error.message)
      return true
    })
  })
}

test('ends an endless body at the deadline of the exchange, also of an error', async (t) => {
  for (const status of [200, 503]) {
    const { url } = await serve(t, (_request, response) => response.writeHead(status).write('{"a'))
    await assert.rejects(ask(url, { timeoutMs: 200 }), { name: 'HttpFault', message: 'no answer within 200 ms' })
  }
})

test('a cancel keeps its reason before headers, in a body and in the body of an error', async (t) => {
  for (const status of [null, 200, 503]) {
    const controller = new AbortController()
    const reason = new Error('cancelled by the workflow')
    const { url } = await serve(t, (_request, response) => {
      if (status !== null) response.writeHead(status).write('{"a')
      setTimeout(() => controller.abort(reason), 20)
    })
    await assert.rejects(ask(url, { signal: controller.signal }), (error) => error === reason)
  }
})

test('refuses a key that no header can hold without quoting it, and takes an empty one as none', async (t) => {
  assert.throws(
    () => createTransport({ base: new URL('http://127.0.0.1:9'), apiKey: 'sk-secret\nx: y' }),
    (error: Error) => {
      assert.doesNotMatch(error.message, /sk-secret/)
      return (error as { code?: string }).code === 'Config.Invalid'
    },
  )
  const { url, seen } = await serve(t, (_request, response) => response.end('{}'))
  await ask(url, {}, { apiKey: '' })
  assert.equal(seen[0]?.headers.authorization, undefined)
})

test('sends user and password of the address as such, below a base with a path', async (t) => {
  const { port, seen } = await serve(t, (_request, response) => response.end('{}'))
  await ask(`http://me:p%40ss@127.0.0.1:${port}/base/`)
  assert.equal(seen[0]?.headers.authorization, `Basic ${Buffer.from('me:p@ss').toString('base64')}`)
  assert.equal(seen[0]?.url, '/base/v1/models')
})

test('passes a query of the path unchanged', async (t) => {
  const { url, seen } = await serve(t, (_request, response) => response.end('{}'))
  await ask(url, { path: '/pause?mode=abort&clear_cache=true', body: {} })
  assert.equal(seen[0]?.url, '/pause?mode=abort&clear_cache=true')
  assert.equal(seen[0]?.method, 'POST')
})

test('uses a proxy of the environment for other machines only', async (t) => {
  const proxy = await serve(t, (_request, response) => response.end('"from the proxy"'))
  const { url, port } = await serve(t, (_request, response) => response.end('"from the server"'))
  useEnvironment(t, { HTTP_PROXY: proxy.url, http_proxy: proxy.url, NO_PROXY: '', no_proxy: '' })
  assert.deepEqual(await ask(url), { text: '"from the server"' })
  assert.deepEqual(await ask(`http://localhost:${port}`), { text: '"from the server"' })
  assert.deepEqual(await ask('http://policy.example:8000'), { text: '"from the proxy"' })
  assert.equal(proxy.seen[0]?.url, 'http://policy.example:8000/v1/models')
})

test('refuses an invalid proxy without its password', (t) => {
  for (const proxy of ['proxy:3128', 'http://', 'me:secret@proxy:3128']) {
    useEnvironment(t, { HTTP_PROXY: proxy, http_proxy: proxy })
    assert.throws(
      () => createTransport({ base: new URL('http://policy.example') }),
      (error: Error) => {
        assert.doesNotMatch(error.message, /secret/)
        return (error as { code?: string }).code === 'Config.Invalid'
      },
    )
  }
})

test('each fault of TLS is one line that says what to change, without the numbers and files of OpenSSL', async (t) => {
  const { port } = await serve(t, (_, response) => response.end())
  const directory = await mkdtemp(join(tmpdir(), 'longhaul-policy-tls-'))
  t.after(() => rm(directory, { recursive: true }))
  const { certPath, keyPath } = createAuthority(directory).issue('server')
  const secure = createSecureServer({ cert: await readFile(certPath), key: await readFile(keyPath) })
  const securePort = await listenOnLoopback(secure)
  t.after(() => secure.close())
  for (const [at, says] of [
    [port, /^the server speaks no TLS: write http:\/\/ in its address.*\(ERR_SSL_WRONG_VERSION_NUMBER\)$/],
    [
      securePort,
      /^the server's certificate is from an unknown authority: name its certificates in NODE_EXTRA_CA_CERTS/,
    ],
  ] as const) {
    const fault = await ask(`https://127.0.0.1:${at}`).then(
      () => null,
      (error: unknown) => error,
    )
    assert.ok(fault instanceof HttpFault, String(fault))
    assert.match(fault.message, says)
    assert.doesNotMatch(fault.message, /\n|error:[0-9A-F]{8}|\.c:/)
  }
})

test('a page in the place of an answer names the address and what to correct', async (t) => {
  const { url } = await serve(t, (_, response) => response.end('<html>sign in'))
  const connection = connectToServer({ url, timeouts: { giveUpAfterMs: 100 } })
  await assert.rejects(connection({ path: '/v1/models', policy: null, signal: never, parse: (answer) => answer }), {
    code: 'Model.BadResponse',
    message: new RegExp(`got a page of another server: correct its address, policyServer.url .*url=${url}`),
  })
})
