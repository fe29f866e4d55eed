import { createServer, type IncomingMessage, request as sendRequest, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { NetworkUse } from '../../contracts/sandbox.types.ts'
import {
  EGRESS_LIMITS,
  type EgressLimits,
  MeteredUpstreams,
  PIECE_BYTES,
  shortageOf,
  type Spend,
} from './metered-upstreams.ts'
import { EgressRefused, type UpstreamOptions } from './open-upstream.ts'

export interface EgressProxyOptions extends UpstreamOptions {
  /** Logs one line per refused connection. */
  log(message: string, facts: Record<string, string | number>): void
  limits?: Partial<EgressLimits>
}

/** A forward proxy (RFC 9110: CONNECT, and requests with an absolute URI) for the connections of one sandbox. It has no listening
 *  socket: the relay hands each connection over. */
export interface EgressProxy {
  accept(connection: Duplex): void
  /** Returns the usage since the last call. */
  takeUse(): NetworkUse
  close(): void
}

export function createEgressProxy(options: EgressProxyOptions): EgressProxy {
  const limits = { ...EGRESS_LIMITS, ...options.limits }
  /** Clients that have no upstream yet, each with the timer that ends it. */
  const clients = new Map<Duplex, NodeJS.Timeout>()
  const upstreams = new MeteredUpstreams(options, limits)
  let refusals = 0
  const refuse = (name: string, why: string): void => {
    const host = upstreams.countRefusal(name)
    refusals += 1
    // Every refusal is counted but few are logged, because an agent can cause any number.
    if (refusals <= MAX_TOLD) options.log('sandbox network: refused', { host, why })
  }

  const join = (client: Duplex, upstream: Socket, sent: Readable): Spend => {
    clearTimeout(clients.get(client))
    return upstreams.join(client, upstream, sent)
  }

  const asked = new WeakSet<Duplex>()
  const server = createServer({ keepAliveTimeout: limits.idleMs }, (request, response) => {
    // Every answer closes its connection, so a second request was sent without waiting for the answer.
    if (asked.has(request.socket)) return void request.socket.destroy()
    asked.add(request.socket)
    response.on('error', () => response.destroy())
    request.on('error', () => response.destroy())
    const target = targetOf(request.url ?? '')
    if (target === null) return answer(response, 400, 'Expected a request with a whole http:// address.')
    upstreams
      .open(target.hostname, Number(target.port || 80))
      .then((upstream) => {
        const spend = join(request.socket, upstream, request)
        forward({ request, response, target, upstream, spend })
      })
      .catch((error: Error) => {
        if (error instanceof EgressRefused) refuse(target.host, error.message)
        answer(response, error instanceof EgressRefused ? 403 : 502, error.message)
      })
  })
  server.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    client.on('error', () => client.destroy())
    const name = request.url ?? ''
    const [, host = '', port = ''] = /^(.+):(\d{1,5})$/.exec(name) ?? []
    // Discards further input of the client. Unread input would block the other connections of its relay.
    const drop = (): void => void client.resume()
    // A client that has disconnected gets no answer.
    const say = (text: string): void => {
      if (!client.destroyed) client.end(text)
      drop()
    }
    upstreams.open(host, Number(port)).then(
      (upstream) => {
        join(client, upstream, client)
        client.write('HTTP/1.1 200 Connection established\r\n\r\n')
        if (head.length > 0) upstream.write(head)
        upstream.pipe(client)
        client.pipe(upstream)
        upstream.on('close', drop)
      },
      (error: Error) => {
        const isRefused = error instanceof EgressRefused
        if (isRefused) refuse(name, error.message)
        const status = isRefused ? '403 Forbidden' : '502 Bad Gateway'
        const body = `${error.message}\n`
        say(`HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)
      },
    )
  })
  server.on('clientError', (_, client) => client.destroy())

  return {
    accept(connection) {
      if (clients.size >= 2 * limits.connections) return void connection.destroy()
      // The server has no listening socket, so its own limits on incomplete requests are inactive.
      const timer = setTimeout(() => connection.destroy(), limits.idleMs)
      clients.set(connection, timer)
      connection.on('close', () => {
        clearTimeout(timer)
        clients.delete(connection)
      })
      connection.on('error', () => connection.destroy())
      server.emit('connection', connection)
    },
    takeUse: () => upstreams.takeUse(),
    close() {
      for (const connection of clients.keys()) connection.destroy()
      upstreams.close()
      server.close()
    },
  }
}

function targetOf(url: string): URL | null {
  if (!url.toLowerCase().startsWith('http://') || !URL.canParse(url)) return null
  return new URL(url)
}

/** Maximum number of logged refusals per sandbox. */
const MAX_TOLD = 100

/** Hop-by-hop headers (RFC 9110, 7.6.1), and headers that clients send to a proxy. */
const HOP_BY_HOP = [
  'connection',
  'proxy-connection',
  'proxy-authorization',
  'keep-alive',
  'te',
  'trailer',
  'upgrade',
  'transfer-encoding',
]

interface ForwardInput {
  request: IncomingMessage
  response: ServerResponse
  target: URL
  upstream: Socket
  spend: Spend
}

function forward({ request, response, target, upstream, spend }: ForwardInput): void {
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !HOP_BY_HOP.includes(name)))
  const outgoing = sendRequest({
    createConnection: () => upstream,
    method: request.method,
    path: `${target.pathname}${target.search}`,
    headers: {
      ...headers,
      // Otherwise the chunks of a GET or a DELETE would be sent unencoded, and the server would read them as separate requests.
      ...(request.headers['transfer-encoding'] === undefined ? {} : { 'transfer-encoding': 'chunked' }),
      // The requested host must match the destination of the connection.
      host: target.host,
      connection: 'close',
    },
  })
  // A single read from the server may contain thousands of these responses.
  outgoing.on('information', () => spend(PIECE_BYTES))
  outgoing.on('response', (incoming) => {
    incoming.on('error', () => response.destroy())
    incoming.on('data', (piece: Buffer) => spend(shortageOf(piece)))
    const kept = Object.entries(incoming.headers).filter(([name]) => !HOP_BY_HOP.includes(name))
    // Each connection carries one request, so its end needs no framing.
    const head = { ...(Object.fromEntries(kept) as Record<string, string>), connection: 'close' }
    try {
      response.writeHead(incoming.statusCode ?? 502, head)
    } catch (error) {
      // The parser accepts more than a response may contain: a status of 099, a header with a control character.
      incoming.destroy()
      return answer(response, 502, `the answer cannot be passed on: ${String(error)}`)
    }
    incoming.pipe(response)
  })
  outgoing.on('upgrade', (_, socket) => {
    socket.destroy()
    answer(response, 502, 'the server changed the protocol')
  })
  outgoing.on('error', (error) => answer(response, 502, error.message))
  request.pipe(outgoing)
}

/** Once an answer has begun, only closing the connection can report an error. */
function answer(response: ServerResponse, status: number, text: string): void {
  if (response.headersSent || response.destroyed) return void response.destroy()
  response.writeHead(status, { 'Content-Type': 'text/plain', Connection: 'close' })
  response.end(`${text}\n`)
}
