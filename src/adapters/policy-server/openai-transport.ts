/**
 * The only importer of `openai` and `undici`: one HTTP exchange with a policy server or a chat endpoint. What is asked, how
 * a reply is checked and when a request is repeated is decided by the callers.
 */
import { APIConnectionTimeoutError, APIError, OpenAI } from 'openai'
import { Stream } from 'openai/core/streaming'
import { Agent, EnvHttpProxyAgent, fetch } from 'undici'
import { LonghaulError } from '../../contracts/errors.ts'
import { refuseCustomHeaders } from './refuse-custom-headers.ts'
import { isObject } from './reply.ts'

export interface TransportOptions {
  /** Without a query; user and password become an `Authorization` header unless there is a key. */
  base: URL
  /** Sent as a bearer token. */
  apiKey?: string | undefined
  /** A longer answer is not read to its end. @default 256 MiB: a 131k-token answer with log-probabilities stays below */
  maxAnswerBytes?: number | undefined
}

export interface HttpAsk {
  /** Below the base, with its query. */
  path: string
  headers: Record<string, string>
  /** Sent as JSON; undefined: GET. */
  body?: unknown
  /** The body asks for server-sent events; a server that answers as a whole all the same is read as it answers. @default false */
  isStreamed?: boolean | undefined
  /** The whole exchange, from connect to the last byte. */
  timeoutMs: number
  signal: AbortSignal
}

/** A status other than 200, or an error amid a stream. */
export interface HttpRefusal {
  status: number
  retryAfter: string | null
  /** Where a redirect leads; none is followed, because the key would go along. */
  location: string | null
  /** What the server says of its error, without the `{error}` around it; undefined where the body is not JSON. */
  error: unknown
  text: string
}

/** The events of a stream are those before its `[DONE]` or its end: whether that was too early only the caller knows. */
export type HttpAnswer = { text: string } | { events: unknown[] } | HttpRefusal

/** No answer arrived: refused, reset, cut in the middle, too slow or too big. A repetition may help. */
export class HttpFault extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'HttpFault'
  }
}

/** @throws HttpFault, or the signal's reason when the caller cancels */
export type Transport = (ask: HttpAsk) => Promise<HttpAnswer>

const MAX_ANSWER_BYTES = 256 * 1024 * 1024
const CONNECT_MS = 10_000

/** @throws LonghaulError `Config.Invalid` for a key, a proxy or an environment that cannot be used */
export function createTransport({ base, apiKey, maxAnswerBytes = MAX_ANSWER_BYTES }: TransportOptions): Transport {
  refuseCustomHeaders(process.env)
  const client = new OpenAI({
    baseURL: `${base.origin}${base.pathname.replace(/\/$/, '')}`,
    // The client insists on a key; the header below goes over it.
    apiKey: requireHeaderText(apiKey) ?? 'none',
    // Every other source of an option is a variable of the environment, meant for other programs.
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    logLevel: 'off',
    // Our own retries keep `Retry-After` and tell each failed try to the run's blockers.
    maxRetries: 0,
    defaultHeaders: {
      ...(apiKey === undefined || apiKey === '' ? { authorization: basicAuthorization(base) } : {}),
      'accept-encoding': 'identity',
    },
    fetch: boundedFetch(base, maxAnswerBytes),
  })
  return async ({ path, headers, body, isStreamed = false, timeoutMs, signal }) => {
    // The client's own time-out does not cover the body of an error.
    const deadline = new AbortController()
    const timer = setTimeout(() => deadline.abort(), timeoutMs)
    try {
      const options = {
        headers,
        timeout: Math.ceil(timeoutMs),
        signal: AbortSignal.any([signal, deadline.signal]),
      }
      const request = body === undefined ? client.get(path, options) : client.post(path, { ...options, body })
      const response = await request.asResponse()
      if (!isStreamed || !isEventStream(response)) return await readAnswer(response)
      const events = await Array.fromAsync(Stream.fromSSEResponse(response, new AbortController(), client))
      // The package takes a request that is given up for the end of its stream.
      options.signal.throwIfAborted()
      return { events }
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (deadline.signal.aborted || error instanceof APIConnectionTimeoutError) {
        throw new HttpFault(`no answer within ${timeoutMs} ms`)
      }
      if (error instanceof APIError && (isStreamed || error.status !== undefined)) return refusalOf(error)
      // The package says no more of an event that it cannot read.
      if (error instanceof SyntaxError) return { text: '' }
      throw faultOf(error, maxAnswerBytes)
    } finally {
      clearTimeout(timer)
    }
  }
}

async function readAnswer(response: Response): Promise<HttpAnswer> {
  const text = await response.text()
  const { status, headers } = response
  return status === 200 ? { text } : { status, ...hintsOf(headers), error: undefined, text }
}

function isEventStream({ status, headers }: Response): boolean {
  return status === 200 && headers.get('content-type')?.startsWith('text/event-stream') === true
}

/** An error amid a stream comes after the status 200: engines put the status that they mean into its `code`. */
function refusalOf({ status, headers, error, message }: APIError): HttpRefusal {
  const code: unknown = isObject(error) ? error['code'] : undefined
  const meant = typeof code === 'number' && code >= 400 && code < 600 ? code : 500
  return { status: status ?? meant, ...hintsOf(headers), error, text: message.replace(/^\d{3} /, '') }
}

function hintsOf(headers: Headers | undefined): Pick<HttpRefusal, 'retryAfter' | 'location'> {
  return { retryAfter: headers?.get('retry-after') ?? null, location: headers?.get('location') ?? null }
}

/**
 * `fetch` without its hidden limits: five minutes for headers and between two chunks would cut long samples, which send
 * nothing until they are done. In their place: no redirect, and no more bytes than allowed, before and after decompression.
 */
function boundedFetch(base: URL, maxBytes: number): typeof globalThis.fetch {
  const options = {
    headersTimeout: 0,
    bodyTimeout: 0,
    connectTimeout: CONNECT_MS,
    maxResponseSize: maxBytes,
    allowH2: false,
  }
  // A proxy cannot reach this machine's own addresses.
  const dispatcher = isLoopback(base.hostname) ? new Agent(options) : proxyAgent(options)
  return async (url, init) => {
    const response = await fetch(url as string, {
      method: init?.method ?? 'GET',
      headers: [...new Headers(init?.headers)],
      // The client has spelled both already.
      body: (init?.body ?? null) as string | null,
      signal: init?.signal ?? null,
      redirect: 'manual',
      dispatcher,
    })
    const { body, status, headers } = response
    if (body === null) return new Response(null, { status, headers: [...headers] })
    return new Response(body.pipeThrough(countBytes(maxBytes)), { status, headers: [...headers] })
  }
}

function countBytes(maxBytes: number): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0
  return new TransformStream({
    transform(chunk, controller) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) controller.error(tooBig(maxBytes))
      else controller.enqueue(chunk)
    },
  })
}

function proxyAgent(options: EnvHttpProxyAgent.Options): EnvHttpProxyAgent {
  try {
    return new EnvHttpProxyAgent(options)
  } catch {
    // Without the value and its error: proxies have passwords.
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected HTTP_PROXY and HTTPS_PROXY to be addresses such as http://proxy:3128',
    })
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
}

/** The innermost cause is what the socket, the parser or the limit said. */
function faultOf(error: unknown, maxBytes: number): HttpFault {
  let root = error
  while (root instanceof Error && root.cause instanceof Error) root = root.cause
  if (root instanceof HttpFault) return root
  if (!(root instanceof Error)) return new HttpFault(String(root), error)
  const { code, message } = root as NodeJS.ErrnoException
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return tooBig(maxBytes)
  if (message === 'bad port') return new HttpFault('fetch refuses this port: let the server listen on another one')
  return new HttpFault(code === undefined || message.includes(code) ? message : `${message} (${code})`.trim(), error)
}

function tooBig(maxBytes: number): HttpFault {
  return new HttpFault(`answer over ${maxBytes} bytes`)
}

function basicAuthorization({ username, password }: URL): string | null {
  if (username === '' && password === '') return null
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(pair).toString('base64')}`
}

/** A header with a line break would be refused by an error that quotes it. */
function requireHeaderText(apiKey: string | undefined): string | undefined {
  if (apiKey === undefined || apiKey === '') return undefined
  if (/^[\x21-\x7e]+$/.test(apiKey)) return apiKey
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected the key of the policy server to be printable ASCII without spaces or line breaks',
  })
}
