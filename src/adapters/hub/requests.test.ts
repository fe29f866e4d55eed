/** A hub, or a proxy on the way to it, that sends more than it was asked for: what is held of an answer has an end. */
import assert from 'node:assert/strict'
import { createServer, type RequestListener } from 'node:http'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'

import { closeServer, listenOnLoopback } from '../../../test/support/loopback.ts'
import { patientFetch } from './requests.ts'

const MIB = 1024 * 1024

async function serve(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  const port = await listenOnLoopback(server)
  t.after(() => closeServer(server))
  return `http://127.0.0.1:${port}`
}

/** How many bytes come before the body breaks off. */
async function readAll(response: Response): Promise<{ bytes: number; error: string | null }> {
  let bytes = 0
  try {
    for await (const chunk of response.body ?? []) bytes += chunk.byteLength
    return { bytes, error: null }
  } catch (error) {
    return { bytes, error: String(error) }
  }
}

const range = { headers: { Range: 'bytes=100-199' } }

test('returns a requested range after a redirection with its final address', async (t) => {
  const url = await serve(t, (request, response) => {
    if (request.url === '/first') return response.writeHead(302, { location: '/second' }).end()
    response.writeHead(206, { 'content-range': 'bytes 100-199/1000', etag: '"x"' }).end(Buffer.alloc(100, 'x'))
  })
  const response = await patientFetch(`${url}/first`, range)
  assert.deepEqual([response.status, response.url, response.headers.get('etag')], [206, `${url}/second`, '"x"'])
  assert.deepEqual(await readAll(response), { bytes: 100, error: null })
})

test('stops at the length of a range that continues without end, and closes the connection', async (t) => {
  const closed = Promise.withResolvers<void>()
  const url = await serve(t, (_, response) => {
    response.on('close', () => closed.resolve())
    response.writeHead(206, { 'content-range': 'bytes 100-199/1000' })
    const write = (): void => {
      while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
    }
    response.on('drain', write)
    write()
  })
  const { bytes, error } = await readAll(await patientFetch(url, range))
  assert.ok(bytes <= 100, `${bytes} bytes`)
  assert.match(error ?? '', /more than 100 bytes/)
  await closed.promise
})

test('stops reading an answer that unpacks without end', async (t) => {
  const packed = gzipSync(Buffer.alloc(MIB))
  const url = await serve(t, (_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' })
    for (let count = 0; count < 300; count += 1) response.write(packed)
    response.end()
  })
  const { bytes, error } = await readAll(await patientFetch(url))
  assert.ok(bytes <= 256 * MIB, `${bytes} bytes`)
  assert.match(error ?? '', /more than 268435456 bytes/)
})
