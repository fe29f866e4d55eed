/** A proxy in front of an S3 server that disturbs answers, connections or requests as the test tells it. */
import { createServer, type IncomingMessage, request as ask, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listenOnLoopback } from '../loopback.ts'

export type Fault =
  /** Answered by the proxy, without the server. */
  | { kind: 'answer'; status: number; code: string; text?: string; headers?: Record<string, string> }
  /** Another request is made instead, and success is reported. */
  | { kind: 'instead'; ask: () => Promise<unknown> }
  /** The server handles the request, but the connection ends before its answer. */
  | { kind: 'lost-answer' }
  /** The answer states its length and ends half-way. */
  | { kind: 'half-body' }
  /** An answer of half the length that states this length: only the hash reveals it. */
  | { kind: 'short-body' }
  /** One byte of the answer is changed. */
  | { kind: 'flipped-body' }
  /** Accepted, but never answered. */
  | { kind: 'silence' }
  /** The connection ends before the request is read. */
  | { kind: 'gone' }
  /** Passed on after a delay. */
  | { kind: 'slow'; ms: number }
  /** The last complete answer to the same request, if there was one. */
  | { kind: 'stale' }
  /** Like a server without conditional writes: the second put is accepted too. */
  | { kind: 'unconditional' }

export interface SeenS3Request {
  method: string
  path: string
  query: URLSearchParams
  headers: Record<string, string | string[] | undefined>
}

export interface FaultyProxy {
  url: string
  /** Called for every request; null passes it on. */
  obey(rule: (request: SeenS3Request) => Fault | null): void
  seen: SeenS3Request[]
  close(): Promise<void>
}

export async function startFaultyProxy(target: string): Promise<FaultyProxy> {
  const { hostname, port } = new URL(target)
  const sockets = new Set<Socket>()
  const seen: SeenS3Request[] = []
  const earlier = new Map<string, Asked>()
  let rule: (request: SeenS3Request) => Fault | null = () => null

  const server = createServer((incoming, outgoing) => {
    void answer(incoming, outgoing).catch(() => incoming.socket.destroy())
  })
  const answer = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    const url = new URL(incoming.url ?? '/', 'http://proxy')
    const request: SeenS3Request = {
      method: incoming.method ?? '',
      path: decodeURIComponent(url.pathname),
      query: url.searchParams,
      headers: incoming.headers,
    }
    seen.push(request)
    const fault = rule(request)
    if (fault?.kind === 'gone') {
      incoming.socket.destroy()
      return
    }
    const body = await bytesOf(incoming)
    if (fault?.kind === 'silence') return
    if (fault?.kind === 'answer') {
      outgoing.writeHead(fault.status, { 'content-type': 'application/xml', ...fault.headers })
      const error = `<?xml version="1.0"?><Error><Code>${fault.code}</Code><Message>as the test says</Message></Error>`
      outgoing.end(incoming.method === 'HEAD' ? '' : (fault.text ?? error))
      return
    }
    if (fault?.kind === 'instead') {
      await fault.ask()
      outgoing.writeHead(200).end()
      return
    }
    if (fault?.kind === 'slow') await sleep(fault.ms)
    const headers = { ...incoming.headers }
    const now = await forward({ hostname, port, incoming, headers, body })
    const asked = fault?.kind === 'stale' ? (earlier.get(url.search) ?? now) : now
    if (fault === null && url.searchParams.has('list-type')) earlier.set(url.search, now)
    if (fault?.kind === 'lost-answer') {
      incoming.socket.destroy()
      return
    }
    const spoiled = fault === null ? asked.body : spoil(fault, asked.body)
    const { 'transfer-encoding': _chunked, ...rest } = asked.headers
    const length = fault?.kind === 'half-body' ? asked.body.length : spoiled.length
    const status = fault?.kind === 'unconditional' && asked.status === 412 ? 200 : asked.status
    outgoing.writeHead(status, {
      ...rest,
      ...(incoming.method === 'HEAD' ? {} : { 'content-length': String(length) }),
    })
    if (fault?.kind === 'half-body') {
      outgoing.write(spoiled, () => incoming.socket.destroy())
      return
    }
    outgoing.end(incoming.method === 'HEAD' ? undefined : spoiled)
  }
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  return {
    url: `http://127.0.0.1:${await listenOnLoopback(server)}`,
    obey: (next) => {
      rule = next
    },
    seen,
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function spoil(fault: Fault, body: Buffer): Buffer {
  if (fault.kind === 'half-body' || fault.kind === 'short-body') return body.subarray(0, Math.floor(body.length / 2))
  if (fault.kind !== 'flipped-body' || body.length === 0) return body
  const other = Buffer.from(body)
  other[0] = (other[0] ?? 0) ^ 1
  return other
}

async function bytesOf(stream: AsyncIterable<unknown>): Promise<Buffer> {
  const parts: Buffer[] = []
  for await (const part of stream) parts.push(part as Buffer)
  return Buffer.concat(parts)
}

interface Asked {
  status: number
  headers: IncomingMessage['headers']
  body: Buffer
}

interface ForwardInput {
  hostname: string
  port: string
  incoming: IncomingMessage
  headers: IncomingMessage['headers']
  body: Buffer
}

/** Keeps the caller's own `Host`, because the signature covers it. */
function forward({ hostname, port, incoming, headers, body }: ForwardInput) {
  const { promise, resolve, reject } = Promise.withResolvers<Asked>()
  const onward = ask(
    { hostname, port, method: incoming.method, path: incoming.url, headers, agent: false },
    (response) => {
      bytesOf(response).then(
        (bytes) => resolve({ status: response.statusCode ?? 502, headers: response.headers, body: bytes }),
        reject,
      )
    },
  )
  onward.on('error', reject)
  onward.end(body)
  return promise
}
