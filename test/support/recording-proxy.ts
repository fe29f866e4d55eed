/** An HTTP proxy in front of a policy server that notes who asked for what, and when. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { closeServer, listenOnLoopback } from './loopback.ts'

/** One sampling request: those of an episode carry its id as session; scoring requests and self-checks are not noted. */
export interface Exchange {
  session: string
  promptTokens: number
  /** Trace that the request belongs to. */
  traceparent?: string | null
  startedMs: number
  /** Null while it is under way; also set when one of the two sides went away. */
  endedMs: number | null
  /** Null where no whole answer came through. */
  status: number | null
}

export interface ProxyEvent {
  kind: 'asked' | 'answered'
  exchange: Exchange
}

export interface RecordingProxy {
  url: string
  exchanges: readonly Exchange[]
  /** Calls the listener at each event from now on. @returns how to stop that */
  listen(listener: (event: ProxyEvent) => void): () => void
  close(): Promise<void>
}

export interface RecordingProxyOptions {
  /** Base address of the policy server. */
  target: string
  /** Changes a parsed request body before it is sent on. */
  rewrite?: (body: Record<string, unknown>) => Record<string, unknown>
  /** Changes the parsed answer to a noted request before it goes back; errors pass as they are. */
  mark?: (exchange: Exchange, body: Record<string, unknown>) => Record<string, unknown>
}

/** Whether a session is none of an episode: publishing asks a server whether it samples truly. */
export function isSelfCheck(session: string): boolean {
  return session.startsWith('self-check/')
}

/** Listens on a free port of the loopback interface. Answers are streamed through as they come. */
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
  /** Of a whole answer with status 200. */
  change: ((body: Buffer) => Buffer) | null
}

/** Resolves when the answer went through or the asker went away; in the second case the server is told by a closed connection. */
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
