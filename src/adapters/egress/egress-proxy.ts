import { createServer, type IncomingMessage, request as sendRequest, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex, Readable } from 'node:stream'

import type { NetworkUse } from '../../contracts/sandbox.types.ts'
import { EgressRefused, openUpstream, type UpstreamOptions } from './open-upstream.ts'

export interface EgressProxyOptions extends UpstreamOptions {
  /** One line for each refused connection. */
  log(message: string, facts: Record<string, string | number>): void
  limits?: Partial<EgressLimits>
}

export interface EgressLimits {
  /** Bytes of one sandbox in both directions. @default 2 GiB: a big wheel or two */
  totalBytes: number
  /** Open connections of one sandbox. @default 64 */
  connections: number
  /** One connection, from its start. @default 10 minutes */
  connectionMs: number
  /** Silence on a connection. @default 60 s */
  idleMs: number
}

const LIMITS: EgressLimits = { totalBytes: 2 * 1024 ** 3, connections: 64, connectionMs: 600_000, idleMs: 60_000 }

/** A forward proxy (RFC 9110: CONNECT, and requests with a whole address) for the connections of one sandbox. It listens nowhere:
 *  whoever has a connection hands it over. */
export interface EgressProxy {
  accept(connection: Duplex): void
  /** What was counted since it was last asked. */
  takeUse(): NetworkUse
  close(): void
}

/** Names in a record are the agent's text: few and short. */
const MAX_NAMES = 10
const MAX_NAME = 100

export function createEgressProxy(options: EgressProxyOptions): EgressProxy {
  const limits = { ...LIMITS, ...options.limits }
  const clients = new Set<Duplex>()
  const upstreams = new Set<Socket>()
  let use = noUse()
  let totalBytes = 0

  const refuse = (name: string, why: string): void => {
    use.refused += 1
    const shown = name.slice(0, MAX_NAME)
    if (use.refusedHosts.length < MAX_NAMES && !use.refusedHosts.includes(shown)) use.refusedHosts.push(shown)
    options.log('sandbox network: refused', { host: shown, why })
  }
  /** Both directions counted and bounded; whatever ends one side ends the other. `sent`: where the client's bytes come from. */
  const watch = (client: Duplex, upstream: Socket, sent: Readable): void => {
    use.opened += 1
    upstreams.add(upstream)
    const stop = (): void => {
      client.destroy()
      upstream.destroy()
    }
    const timer = setTimeout(stop, limits.connectionMs)
    const count = (chunk: Buffer): void => {
      use.bytes += chunk.length
      totalBytes += chunk.length
      if (totalBytes > limits.totalBytes) stop()
    }
    upstream.setTimeout(limits.idleMs, stop)
    upstream.on('data', count)
    sent.on('data', count)
    upstream.on('error', stop)
    client.on('error', stop)
    client.on('close', stop)
    upstream.on('close', () => {
      clearTimeout(timer)
      upstreams.delete(upstream)
    })
  }
  const open = async (host: string, port: number): Promise<Socket> => {
    if (totalBytes > limits.totalBytes) throw new EgressRefused(`more than ${limits.totalBytes} bytes in all`)
    if (upstreams.size >= limits.connections)
      throw new EgressRefused(`more than ${limits.connections} connections at once`)
    return openUpstream({ host, port }, options)
  }

  const server = createServer({ keepAliveTimeout: limits.idleMs }, (request, response) => {
    const target = targetOf(request.url ?? '')
    if (target === null) return answer(response, 400, 'Expected a request with a whole http:// address.')
    open(target.hostname, Number(target.port || 80)).then(
      (upstream) => {
        watch(request.socket, upstream, request)
        forward({ request, response, target, upstream })
      },
      (error: Error) => {
        if (error instanceof EgressRefused) refuse(target.host, error.message)
        answer(response, error instanceof EgressRefused ? 403 : 502, error.message)
      },
    )
  })
  server.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    client.on('error', () => client.destroy())
    const name = request.url ?? ''
    const [, host = '', port = ''] = /^(.+):(\d{1,5})$/.exec(name) ?? []
    open(host, Number(port)).then(
      (upstream) => {
        watch(client, upstream, client)
        client.write('HTTP/1.1 200 Connection established\r\n\r\n')
        if (head.length > 0) upstream.write(head)
        upstream.pipe(client)
        client.pipe(upstream)
      },
      (error: Error) => {
        const isRefused = error instanceof EgressRefused
        if (isRefused) refuse(name, error.message)
        const status = isRefused ? '403 Forbidden' : '502 Bad Gateway'
        const body = `${error.message}\n`
        client.end(`HTTP/1.1 ${status}\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`)
      },
    )
  })
  server.on('clientError', (_, client) => client.destroy())

  return {
    accept(connection) {
      clients.add(connection)
      connection.on('close', () => clients.delete(connection))
      connection.on('error', () => connection.destroy())
      server.emit('connection', connection)
    },
    takeUse() {
      const taken = use
      use = noUse()
      return taken
    },
    close() {
      for (const connection of [...clients, ...upstreams]) connection.destroy()
      server.close()
    },
  }
}

function noUse(): NetworkUse {
  return { opened: 0, refused: 0, bytes: 0, refusedHosts: [] }
}

function targetOf(url: string): URL | null {
  if (!url.toLowerCase().startsWith('http://') || !URL.canParse(url)) return null
  return new URL(url)
}

/** Between two neighbours only, and the sandbox's word to us. */
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
}

function forward({ request, response, target, upstream }: ForwardInput): void {
  const headers = Object.fromEntries(Object.entries(request.headers).filter(([name]) => !HOP_BY_HOP.includes(name)))
  const outgoing = sendRequest({
    createConnection: () => upstream,
    method: request.method,
    path: `${target.pathname}${target.search}`,
    // What is asked for and where the connection goes must be one.
    headers: { ...headers, host: target.host, connection: 'close' },
  })
  outgoing.on('response', (incoming) => {
    const kept = Object.entries(incoming.headers).filter(([name]) => !HOP_BY_HOP.includes(name))
    // One request a connection: what ends it is then simple.
    const head = { ...(Object.fromEntries(kept) as Record<string, string>), connection: 'close' }
    response.writeHead(incoming.statusCode ?? 502, head)
    incoming.pipe(response)
  })
  outgoing.on('error', (error) => {
    if (response.headersSent) response.destroy()
    else answer(response, 502, error.message)
  })
  request.pipe(outgoing)
}

function answer(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { 'Content-Type': 'text/plain', Connection: 'close' })
  response.end(`${text}\n`)
}
