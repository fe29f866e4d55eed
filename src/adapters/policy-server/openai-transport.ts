/**
 * The only importer of `openai` and `undici`. It performs one HTTP exchange with a policy server or a chat endpoint. Callers build
 * requests, check replies and decide about retries.
 */
import { APIConnectionTimeoutError, APIError, OpenAI } from 'openai'
import { Agent, EnvHttpProxyAgent, fetch } from 'undici'
import { LonghaulError } from '../../contracts/errors.ts'
import { readEvents } from './dialect.ts'
import { refuseCustomHeaders } from './refuse-custom-headers.ts'
import { isObject } from '../../domain/shapes.ts'

export interface TransportOptions {
  /** Has no query. A user and password become an `Authorization` header unless there is a key. */
  base: URL
  /** Sent as a bearer token. */
  apiKey?: string | undefined
  /** Reading stops beyond this size. @default 256 MiB, more than a 131k-token answer with log-probabilities */
  maxAnswerBytes?: number | undefined
}

export interface HttpAsk {
  /** Relative to the base, including the query. */
  path: string
  headers: Record<string, string>
  /** Sent as JSON; undefined for GET. */
  body?: unknown
  /** The body requests server-sent events, which a new one of these takes. A server that answers without a stream is accepted too. */
  fold?: (() => EventFold) | undefined
  /** Reading a 200 answer stops beyond this size. @default the transport's */
  maxAnswerBytes?: number | undefined
  /** Limit for the whole exchange, from connect to the last byte. */
  timeoutMs: number
  signal: AbortSignal
}

/** Takes the events of a stream one by one, so that no stream is held, however many events it has. */
export interface EventFold {
  /** Must not throw; `end` does. */
  add(event: unknown): void
  /** The answer that the events make. @throws LonghaulError `Model.BadResponse` */
  end(): unknown
}

/** A status other than 200, or an error inside a stream. */
export interface HttpRefusal {
  status: number
  retryAfter: string | null
  /** Target of a redirect. Redirects are never followed, because the key would be sent along. */
  location: string | null
  /** The server's error without its `{error}` wrapper; undefined if the body is not JSON. */
  error: unknown
  text: string
}

/** With a stream, the fold has taken its events up to `[DONE]` or its end. Only the caller can tell whether the end came too early. */
export type HttpAnswer = { text: string } | { fold: EventFold } | HttpRefusal

/** No complete answer arrived: refused, reset, truncated, too slow or too large. A retry may help. */
export class HttpFault extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause })
    this.name = 'HttpFault'
  }
}

/** @throws HttpFault, or the signal's reason if the caller cancels */
export type Transport = (ask: HttpAsk) => Promise<HttpAnswer>

const MAX_ANSWER_BYTES = 256 * 1024 * 1024
/** An error is a sentence, and some engines quote the request in it. The client parses all of it on the main thread. */
const MAX_ERROR_BYTES = 1024 * 1024
const CONNECT_MS = 10_000

/** @throws LonghaulError `Config.Invalid` if the key, a proxy or the environment is invalid */
export function createTransport({ base, apiKey, maxAnswerBytes = MAX_ANSWER_BYTES }: TransportOptions): Transport {
  refuseCustomHeaders(process.env)
  const client = new OpenAI({
    baseURL: `${base.origin}${base.pathname.replace(/\/$/, '')}`,
    // The client requires a key. The header below overrides it.
    apiKey: requireHeaderText(apiKey) ?? 'none',
    // Other options would be read from environment variables that are meant for other programs.
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    logLevel: 'off',
    // Our own retries honour `Retry-After` and report each failed try to the run's blockers.
    maxRetries: 0,
    defaultHeaders: {
      ...(apiKey === undefined || apiKey === '' ? { authorization: basicAuthorization(base) } : {}),
      'accept-encoding': 'identity',
    },
    fetch: boundedFetch(base, maxAnswerBytes),
  })
  return async ({ path, headers, body, fold, maxAnswerBytes: asked = maxAnswerBytes, timeoutMs, signal }) => {
    const most = Math.min(asked, maxAnswerBytes)
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
      const response = withAtMost(most, await request.asResponse())
      if (fold === undefined || !isEventStream(response)) return await readAnswer(response)
      return await foldEvents(response, fold())
    } catch (error) {
      if (signal.aborted) throw signal.reason
      if (deadline.signal.aborted || error instanceof APIConnectionTimeoutError) {
        throw new HttpFault(`no answer within ${timeoutMs} ms`)
      }
      if (error instanceof APIError && error.status !== undefined) {
        const { status, headers: told, error: reason, message } = error
        return { status, ...hintsOf(told), error: reason, text: message.replace(/^\d{3} /, '') }
      }
      // An event that cannot be parsed, or an error so deep that the package cannot write it out.
      if (error instanceof SyntaxError || error instanceof RangeError) return { text: '' }
      throw faultOf(error, most)
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

async function foldEvents({ body, headers }: Response, fold: EventFold): Promise<HttpAnswer> {
  let refusal: HttpRefusal | null = null
  await readEvents(body ?? new ReadableStream(), ({ name, data }) => {
    if (data === '[DONE]') return false
    const event: unknown = JSON.parse(data)
    const error = isObject(event) ? event['error'] : undefined
    const isError = name === 'error' || Boolean(error)
    if (isError) refusal = refusalOf(error ?? event, headers)
    else fold.add(event)
    return !isError
  })
  return refusal ?? { fold }
}

/** An error inside a stream follows the status 200. Engines put the intended status into its `code`. */
function refusalOf(error: unknown, headers: Headers): HttpRefusal {
  const code: unknown = isObject(error) ? error['code'] : undefined
  const meant = typeof code === 'number' && code >= 400 && code < 600 ? code : 500
  return { status: meant, ...hintsOf(headers), error, text: spell(error) }
}

/** JSON for a message, also of a value that is nested too deep for it. */
export function spell(value: unknown): string {
  try {
    return JSON.stringify(value)
  } catch {
    return 'a deeply nested value'
  }
}

function hintsOf(headers: Headers | undefined): Pick<HttpRefusal, 'retryAfter' | 'location'> {
  return { retryAfter: headers?.get('retry-after') ?? null, location: headers?.get('location') ?? null }
}

/**
 * `fetch` without its hidden limits: five minutes for headers and between two chunks would abort long samples, which send nothing until
 * they are done. Instead it follows no redirects and limits the bytes before and after decompression.
 */
function boundedFetch(base: URL, maxBytes: number): typeof globalThis.fetch {
  const options = {
    headersTimeout: 0,
    bodyTimeout: 0,
    connectTimeout: CONNECT_MS,
    maxResponseSize: maxBytes,
    allowH2: false,
  }
  // A proxy cannot reach the loopback addresses of this machine.
  const dispatcher = isLoopback(base.hostname) ? new Agent(options) : proxyAgent(options)
  return async (url, init) => {
    const response = await fetch(url as string, {
      method: init?.method ?? 'GET',
      headers: [...new Headers(init?.headers)],
      // The client has already serialised both.
      body: (init?.body ?? null) as string | null,
      signal: init?.signal ?? null,
      redirect: 'manual',
      dispatcher,
    })
    const { body, status } = response
    const headers = [...response.headers]
    if (body === null) return new Response(null, { status, headers })
    const whole = new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>, { status, headers })
    // What was asked for bounds a 200 answer, once the client has returned it unread.
    return status === 200 ? whole : withAtMost(Math.min(maxBytes, MAX_ERROR_BYTES), whole)
  }
}

function withAtMost(maxBytes: number, response: Response): Response {
  const { body, status, headers } = response
  return body === null ? response : new Response(body.pipeThrough(countBytes(maxBytes)), { status, headers })
}

function countBytes(maxBytes: number): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
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
    // The value and its error are omitted, because proxy addresses may contain passwords.
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected HTTP_PROXY and HTTPS_PROXY to be addresses such as http://proxy:3128',
    })
  }
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(\.\d+){3}$/.test(host)
}

/** The innermost cause is the message of the socket, the parser or the limit. */
function faultOf(error: unknown, maxBytes: number): HttpFault {
  let root = error
  while (root instanceof Error && root.cause instanceof Error) root = root.cause
  if (root instanceof HttpFault) return root
  if (!(root instanceof Error)) return new HttpFault(String(root), error)
  const { code, message } = root as NodeJS.ErrnoException
  if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') return tooBig(maxBytes)
  const remedy = TLS_FAULTS[code ?? '']
  if (remedy !== undefined) return new HttpFault(`${remedy} (${code})`, error)
  if (message === 'bad port') return new HttpFault('fetch refuses this port: let the server listen on another one')
  const said = alertOf(message).replaceAll(/\s+/g, ' ').trim()
  return new HttpFault(code === undefined || said.includes(code) ? said : `${said} (${code})`.trim(), error)
}

/** OpenSSL's own reason, without its numbers and the files of its sources. */
function alertOf(message: string): string {
  return /:SSL routines:[^:]*:([^:]+):/.exec(message)?.[1] ?? message
}

const NO_TLS = 'the server speaks no TLS: write http:// in its address, or the port that does'
const UNKNOWN_AUTHORITY =
  "the server's certificate is from an unknown authority: name its certificates in NODE_EXTRA_CA_CERTS of the workers"

/** What an operator must change, by the code of Node's error. */
const TLS_FAULTS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "the server's certificate has expired: renew it",
  CERT_NOT_YET_VALID: "the server's certificate is not valid yet: compare the clocks",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another name: write that name in its address",
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
}

function tooBig(maxBytes: number): HttpFault {
  return new HttpFault(`answer over ${maxBytes} bytes`)
}

function basicAuthorization({ username, password }: URL): string | null {
  if (username === '' && password === '') return null
  const pair = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(pair).toString('base64')}`
}

/** Checked here, because the error for a header with a line break would quote the key. */
function requireHeaderText(apiKey: string | undefined): string | undefined {
  if (apiKey === undefined || apiKey === '') return undefined
  if (/^[\x21-\x7e]+$/.test(apiKey)) return apiKey
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: 'Expected the key of the policy server to be printable ASCII without spaces or line breaks',
  })
}
