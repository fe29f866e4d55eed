/** An HTTP proxy in front of a policy server that records the sampling requests with their times. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { closeServer, listenOnLoopback } from './loopback.ts'

/** One sampling request. An episode's requests have its id as session; scoring requests and self-checks are not recorded. */
export interface Exchange {
  session: string
  promptTokens: number
  /** Trace of the request. */
  traceparent?: string | null
  startedMs: number
  /** Null while the request is in progress; also set if one of the two sides disconnected. */
  endedMs: number | null
  /** Null if no complete answer came through. */
  status: number | null
}

export interface ProxyEvent {
  kind: 'asked' | 'answered'
  exchange: Exchange
}

export interface RecordingProxy {
  url: string
  exchanges: readonly Exchange[]
  /** Calls the listener at each event from now on. @returns a function that stops this */
  listen(listener: (event: ProxyEvent) => void): () => void
  close(): Promise<void>
}

export interface RecordingProxyOptions {
  /** Base address of the policy server. */
  target: string
  /** Changes a parsed request body before it is forwarded. */
  rewrite?: (body: Record<string, unknown>) => Record<string, unknown>
  /** Changes the parsed answer to a recorded request before it is returned; errors pass unchanged. */
  mark?: (exchange: Exchange, body: Record<string, unknown>) => Record<string, unknown>
}

/** Whether a session belongs to no episode: publishing checks with such sessions whether a server samples correctly. */
export function isSelfCheck(session: string): boolean {
  return session.startsWith('self-check/')
}

/** Listens on a free port of the loopback interface and streams answers through. */
export async function startRecordingProxy({ target, rewrite, mark }: RecordingProxyOptions): Promise<RecordingProxy> {
  const exchanges: Exchange[] = []
  const listeners = new Set<(event: ProxyEvent) => void>()
  const tell = (event: ProxyEvent): void => {
    for (const listener of listeners) listener(event)
  }
  const server = createServer((asked, answer) => {
    void forward(asked, answer).catch(() => answer.destroy())
  })

  async function forward(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const startedMs = Date.now()
    const sent = await readAll(asked)
    const exchange = note(asked, sent, startedMs)
    if (exchange !== null) tell({ kind: 'asked', exchange })
    const body = rewrite === undefined || sent.length === 0 ? sent : rewritten(sent, rewrite)
    try {
      const change =
        exchange === null || mark === undefined
          ? null
          : (bytes: Buffer): Buffer => rewritten(bytes, (parsed) => mark(exchange, parsed))
      const { status, answered } = await passOn({ target, asked, body, answer, change })
      if (exchange !== null && answered) exchange.status = status
    } finally {
      if (exchange !== null) {
        exchange.endedMs = Date.now()
        tell({ kind: 'answered', exchange })
      }
    }
  }

  function note(asked: IncomingMessage, body: Buffer, startedMs: number): Exchange | null {
    const session = asked.headers['x-session-id']
    if (asked.url !== '/v1/completions' || typeof session !== 'string') return null
    if (isSelfCheck(decodeURIComponent(session))) return null
    const { prompt } = JSON.parse(body.toString('utf8')) as { prompt: number[] }
    const exchange: Exchange = {
      session: decodeURIComponent(session),
      promptTokens: prompt.length,
      traceparent: asked.headers['traceparent']?.toString() ?? null,
      startedMs,
      endedMs: null,
      status: null,
    }
    exchanges.push(exchange)
    return exchange
  }

  const port = await listenOnLoopback(server)
  return {
    url: `http://127.0.0.1:${port}`,
    exchanges,
    listen(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    close: () => closeServer(server),
  }
}

interface PassOnInput {
  target: string
  asked: IncomingMessage
  body: Buffer
  answer: ServerResponse
  /** Applied to a complete answer with status 200. */
  change: ((body: Buffer) => Buffer) | null
}

/** Resolves when the answer was returned or the client disconnected; in the second case the connection to the server is closed. */
function passOn({ target, asked, body, answer, change }: PassOnInput): Promise<{ status: number; answered: boolean }> {
  const { host: _, connection: __, 'content-length': ___, ...headers } = asked.headers
  return new Promise((resolve, reject) => {
    const onward = request(
      new URL(asked.url ?? '/', target),
      { method: asked.method, headers: { ...headers, 'content-length': String(body.length) } },
      (reply) => {
        const status = reply.statusCode ?? 502
        const sent = change === null || status !== 200 ? streamed(reply, answer) : changed(reply, answer, change)
        sent.then(
          () => resolve({ status, answered: true }),
          () => resolve({ status, answered: false }),
        )
      },
    )
    onward.on('error', reject)
    answer.on('close', () => {
      if (!answer.writableFinished) onward.destroy(new Error('the asker went away'))
    })
    onward.end(body)
  })
}

function streamed(reply: IncomingMessage, answer: ServerResponse): Promise<void> {
  answer.writeHead(reply.statusCode ?? 502, reply.headers)
  return pipeline(reply, answer)
}

async function changed(
  reply: IncomingMessage,
  answer: ServerResponse,
  change: (body: Buffer) => Buffer,
): Promise<void> {
  const body = change(await readAll(reply))
  const { 'content-length': _, 'transfer-encoding': __, ...headers } = reply.headers
  answer.writeHead(200, { ...headers, 'content-length': String(body.length) })
  await pipeline([body], answer)
}

function rewritten(body: Buffer, rewrite: NonNullable<RecordingProxyOptions['rewrite']>): Buffer {
  return Buffer.from(JSON.stringify(rewrite(JSON.parse(body.toString('utf8')) as Record<string, unknown>)))
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of stream) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}
