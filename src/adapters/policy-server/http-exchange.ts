import { Agent as HttpAgent, type IncomingMessage, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'

export interface HttpAsk {
  url: URL
  method: 'GET' | 'POST'
  headers: Record<string, string>
  /** Sent as JSON; undefined for GET. */
  body?: unknown
  /** A longer answer is not read to its end. @default 256 MiB: a 131k-token answer with log-probabilities stays below */
  maxAnswerBytes?: number
  /** The whole exchange, from connect to the last byte. */
  timeoutMs: number
  signal: AbortSignal
}

export interface HttpAnswer {
  status: number
  retryAfter: string | null
  text: string
}

/** What came instead of an answer: refused, reset, cut in the middle, too slow or too big. A repetition may help. */
export class HttpFault extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'HttpFault'
  }
}

const MAX_ANSWER_BYTES = 256 * 1024 * 1024

const agents = {
  'http:': new HttpAgent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY }),
  'https:': new HttpsAgent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY }),
}

/**
 * One HTTP exchange over kept-alive connections. Not `fetch`: its hidden five-minute limit on headers would cut long
 * samples, which send nothing until they are done.
 * Rejects with `HttpFault`, or with the signal's reason when the caller gave up.
 */
export async function exchange(ask: HttpAsk): Promise<HttpAnswer> {
  const deadline = new AbortController()
  const timer = setTimeout(() => deadline.abort(), ask.timeoutMs)
  try {
    return await send(ask, AbortSignal.any([ask.signal, deadline.signal]))
  } catch (error) {
    if (ask.signal.aborted) throw ask.signal.reason
    if (deadline.signal.aborted) throw new HttpFault(`no answer within ${ask.timeoutMs} ms`)
    if (error instanceof HttpFault) throw error
    const code = (error as NodeJS.ErrnoException).code
    throw new HttpFault(code ?? String(error), error)
  } finally {
    clearTimeout(timer)
  }
}

function send(
  { url, method, headers, body, maxAnswerBytes = MAX_ANSWER_BYTES }: HttpAsk,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const secure = url.protocol === 'https:'
  const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body))
  const options = {
    method,
    signal,
    agent: secure ? agents['https:'] : agents['http:'],
    headers:
      payload === undefined
        ? headers
        : { ...headers, 'content-type': 'application/json', 'content-length': String(payload.byteLength) },
  }
  return new Promise((resolve, reject) => {
    const request = (secure ? httpsRequest : httpRequest)(url, options, (response) => {
      readBody(response, maxAnswerBytes).then((text) => {
        const retryAfter = response.headers['retry-after'] ?? null
        resolve({ status: response.statusCode ?? 0, retryAfter, text })
      }, reject)
    })
    request.on('error', reject)
    request.end(payload)
  })
}

async function readBody(response: IncomingMessage, maxBytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response) {
    bytes += (chunk as Buffer).byteLength
    if (bytes > maxBytes) {
      response.destroy()
      throw new HttpFault(`answer over ${maxBytes} bytes`)
    }
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks).toString('utf8')
}
