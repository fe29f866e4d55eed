/** A receiver of webhooks on loopback that can misbehave. */
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { closeServer, listenOnLoopback } from './loopback.ts'

/** A status or a misbehaviour; after the last one the receiver answers 200. */
export type ReceiverAnswer =
  | number
  | { status: number; location: string }
  | 'silent'
  | 'closes'
  | 'endless-headers'
  | 'endless-body'

export interface ReceivedWebhook {
  path: string
  headers: IncomingHttpHeaders
  body: string
  /** The receiver's answer. */
  answer: ReceiverAnswer
}

export interface WebhookReceiver extends AsyncDisposable {
  url: string
  /** `127.0.0.1:port`. */
  host: string
  got: ReceivedWebhook[]
  connections(): number
  /** Resolves with the first connection. */
  connected: Promise<void>
}

export async function startReceiver(answers: readonly ReceiverAnswer[] = []): Promise<WebhookReceiver> {
  const got: ReceivedWebhook[] = []
  const left = [...answers]
  const talking = new Set<NodeJS.Timeout>()
  const { promise: connected, resolve: noteConnection } = Promise.withResolvers<void>()
  let connections = 0
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => undefined)
    request.on('end', () => {
      const answer = left.shift() ?? 200
      got.push({ path: request.url ?? '', headers: request.headers, body: Buffer.concat(chunks).toString(), answer })
      if (typeof answer === 'number') response.writeHead(answer).end('thanks')
      else if (typeof answer === 'object') response.writeHead(answer.status, { location: answer.location }).end()
      else misbehave(answer, response.socket)
    })
  })
  const misbehave = (answer: Exclude<ReceiverAnswer, number | object>, socket: Socket | null): void => {
    if (answer === 'silent' || socket === null) return
    if (answer === 'closes') return void socket.destroy()
    socket.on('error', () => undefined)
    socket.write('HTTP/1.1 200 OK\r\n')
    if (answer === 'endless-body') socket.write('transfer-encoding: chunked\r\n\r\n')
    const more = answer === 'endless-body' ? '1\r\nx\r\n' : 'x: y\r\n'
    const timer = setInterval(() => socket.write(more), 20)
    talking.add(timer)
    socket.on('close', () => clearInterval(timer))
  }
  server.on('connection', () => {
    connections += 1
    noteConnection()
  })
  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}`,
    host: `127.0.0.1:${port}`,
    got,
    connected,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      for (const timer of talking) clearInterval(timer)
      await closeServer(server)
    },
  }
}
