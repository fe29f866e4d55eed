import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { timingSafeEqual } from 'node:crypto'
import type { Payload, PayloadCodec } from '@temporalio/common'
import { isLonghaulError, LonghaulError, toLonghaulError } from '../contracts/errors.ts'
import { createPayloadCodec, readCodecKeys } from '../platform/payload-codec.ts'

export interface CodecServerOptions {
  /** @default 127.0.0.1 */
  host: string
  port: number
  /** Origins that may send requests, such as `http://127.0.0.1:8233`. Requests without an `Origin` header, as from the CLI, are accepted. */
  origins: readonly string[]
  /** Expected as `Authorization: Bearer …`; null is allowed on loopback only. */
  token: string | null
}

interface JsonPayload {
  metadata?: Record<string, string>
  data?: string
}

const MOST_BODY_BYTES = 16 * 1024 ** 2
const REQUEST_TIMEOUT_MS = 30_000

/**
 * Encodes and decodes payloads for the Temporal UI and CLI, which have no keys: `POST /encode` and `/decode` with `{ payloads: [{ metadata,
 * data }] }`, bytes in base64 (Temporal's remote codec protocol).
 * @throws LonghaulError `Config.Invalid` without keys, without a token on a non-loopback host, or if the port is taken
 */
export async function startCodecServer(options: CodecServerOptions): Promise<{ url: string; server: Server }> {
  const { host, port, token } = options
  const keys = readCodecKeys()
  if (keys === null) throw invalid('Expected LONGHAUL_CODEC_KEYS: without keys there is nothing to decode')
  if (token === null && !isLoopback(host)) {
    throw invalid(
      `Expected LONGHAUL_CODEC_TOKEN beside --host ${host}: every client that reaches that address could read every payload`,
    )
  }
  const codec = createPayloadCodec(keys)
  const server = createServer((request, response) => {
    answer({ ...options, codec }, request, response).catch((error: unknown) => {
      const { message } = toLonghaulError(error)
      reply(response, isLonghaulError(error) ? 400 : 500, { message })
    })
  })
  server.requestTimeout = REQUEST_TIMEOUT_MS
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(invalid(`The codec server cannot listen at ${host}:${port}: ${cause.message}`, cause)),
    )
    server.listen(port, host, resolve)
  })
  return { url: `http://${host}:${(server.address() as AddressInfo).port}`, server }
}

async function answer(
  { codec, origins, token }: CodecServerOptions & { codec: PayloadCodec },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { origin } = request.headers
  if (origin !== undefined) {
    if (!origins.includes(origin))
      return reply(response, 403, {
        message: `Requests from the origin ${origin} are refused: --origin names the allowed origins`,
      })
    response.setHeader('Access-Control-Allow-Origin', origin)
    response.setHeader('Access-Control-Allow-Headers', 'Authorization, Content-Type, X-Namespace')
    response.setHeader('Access-Control-Allow-Methods', 'POST')
    response.setHeader('Vary', 'Origin')
  }
  if (request.method === 'OPTIONS') return reply(response, 204, null)
  if (token !== null && !isSame(request.headers.authorization ?? '', `Bearer ${token}`)) {
    return reply(response, 401, { message: 'Expected Authorization: Bearer, with the token of LONGHAUL_CODEC_TOKEN' })
  }
  const work = { '/encode': codec.encode, '/decode': codec.decode }[new URL(request.url ?? '/', 'http://x').pathname]
  if (request.method !== 'POST' || work === undefined) {
    return reply(response, 404, { message: 'Expected POST /encode or POST /decode' })
  }
  // A cross-origin page can submit a form without a preflight request, but not JSON.
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) {
    return reply(response, 415, { message: 'Expected Content-Type: application/json' })
  }
  const payloads = readPayloads(await readBody(request))
  reply(response, 200, { payloads: (await work(payloads)).map(toJson) })
}

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > MOST_BODY_BYTES) throw invalid(`Expected at most ${MOST_BODY_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function readPayloads(body: string): Payload[] {
  try {
    const { payloads } = JSON.parse(body) as { payloads: JsonPayload[] }
    return payloads.map(({ metadata = {}, data = '' }) => ({
      metadata: Object.fromEntries(Object.entries(metadata).map(([name, text]) => [name, Buffer.from(text, 'base64')])),
      data: Buffer.from(data, 'base64'),
    }))
  } catch (cause) {
    throw invalid('Expected { "payloads": [{ "metadata": { … }, "data": "…" }] } with bytes in base64', cause)
  }
}

function toJson({ metadata, data }: Payload): JsonPayload {
  return {
    metadata: Object.fromEntries(
      Object.entries(metadata ?? {}).map(([name, bytes]) => [name, Buffer.from(bytes).toString('base64')]),
    ),
    data: Buffer.from(data ?? []).toString('base64'),
  }
}

function reply(response: ServerResponse, status: number, body: object | null): void {
  if (response.headersSent) return
  if (body === null) response.writeHead(status).end()
  else response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
}

function isSame(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || host.startsWith('127.')
}

function invalid(message: string, cause?: unknown): LonghaulError {
  return new LonghaulError({ code: 'Config.Invalid', message, ...(cause === undefined ? {} : { cause }) })
}
