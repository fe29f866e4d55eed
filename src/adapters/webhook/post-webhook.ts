import { createHmac } from 'node:crypto'
import { type IncomingMessage, request as sendRequest } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { LonghaulError } from '../../contracts/errors.ts'
import { unlessAborted } from '../../platform/unless-aborted.ts'
import { type DialOptions, dialPublic, EgressFailed, EgressRefused } from '../egress/open-upstream.ts'

/** Limit of one exchange. The next attempt repeats it. */
const ANSWER_MS = 15_000

/** Hosts inside the operator's own network that may receive alarms, as `host` or `host:port`, separated by commas. */
export const INSIDE_VARIABLE = 'LONGHAUL_ALARM_HOSTS'

export interface PostWebhookInput {
  /** http or https. It may contain a token, so no error and no log includes any part of it. */
  url: string
  /** Name of the variable that holds the address, which errors show instead of the address. */
  urlVariable: string
  /** Null for unsigned messages. */
  secret: string | null
  /** The same for every attempt at one message. */
  id: string
  body: string
}

export interface PostWebhookOptions extends DialOptions {
  /** @default now */
  at?: Date
  /** @default 15 seconds */
  answerMs?: number
  /** Hosts that may be reached although they are not public. @default none */
  inside?: readonly string[]
}

/**
 * Posts JSON, signed as in standardwebhooks.com: `webhook-signature: v1,<base64 of HMAC-SHA256 over id.timestamp.body>`. Connects only
 * to public addresses, except for hosts that the operator names, and follows no redirects, so that a receiver controls nothing here.
 * @throws LonghaulError `Alarm.Refused` if a retry cannot help; `Alarm.Unavailable` if it may
 */
export async function postWebhook(
  { url, urlVariable, secret, id, body }: PostWebhookInput,
  signal: AbortSignal,
  options: PostWebhookOptions = {},
): Promise<void> {
  const target = parseWebhookUrl(url, urlVariable)
  const { at = new Date(), answerMs = ANSWER_MS } = options
  const timestamp = String(Math.floor(at.getTime() / 1000))
  const headers = {
    host: target.host,
    connection: 'close',
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'user-agent': 'longhaul',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    ...(secret === null ? {} : { 'webhook-signature': `v1,${signWebhook({ secret, id, timestamp, body })}` }),
  }
  const late = AbortSignal.timeout(answerMs)
  const ending = AbortSignal.any([signal, late])
  try {
    // The look-up and the connection have their own limits, which may be longer than this one.
    const status = await unlessAborted(post(target, { headers, body, signal: ending, options }), ending)
    if (status >= 200 && status < 300) return
    throw answered(status, urlVariable)
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof LonghaulError) throw error
    if (late.aborted) throw unavailable(urlVariable, `no answer within ${answerMs / 1000} s`)
    if (error instanceof EgressRefused) throw refusedAddress(urlVariable)
    throw unavailable(urlVariable, reasonOf(error))
  }
}

/** Returns the base64 of HMAC-SHA256. After the prefix `whsec_` the secret is base64, as receivers' libraries expect; any other
 *  secret is used as its bytes. */
export function signWebhook({
  secret,
  id,
  timestamp,
  body,
}: {
  secret: string
  id: string
  timestamp: string
  body: string
}): string {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)
  return createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
}

/** @throws LonghaulError `Config.Invalid`, without the value */
export function parseWebhookUrl(url: string, urlVariable: string): URL {
  const parsed = URL.parse(url)
  if (parsed !== null && /^https?:$/.test(parsed.protocol) && parsed.username === '' && parsed.password === '') {
    return parsed
  }
  throw new LonghaulError({
    code: 'Config.Invalid',
    message: `Expected ${urlVariable} to hold an address such as https://hooks.example.org/…, without a user in it; its value is not shown here`,
  })
}

interface Posting {
  headers: Record<string, string | number>
  body: string
  signal: AbortSignal
  options: PostWebhookOptions
}

async function post(url: URL, { headers, body, signal, options }: Posting): Promise<number> {
  const isSecure = url.protocol === 'https:'
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = Number(url.port || (isSecure ? 443 : 80))
  const isInside = (options.inside ?? []).some((name) => name === host || name === `${host}:${port}`)
  const socket = await dialPublic({ host, port }, { ...options, mayReachAny: isInside })
  if (signal.aborted) socket.destroy()
  const connection = isSecure ? secured(socket, host) : socket
  connection.on('error', () => connection.destroy())
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const request = sendRequest({
        createConnection: () => connection,
        method: 'POST',
        path: `${url.pathname}${url.search}`,
        headers,
        signal,
      })
      request.on('response', resolve)
      request.on('error', reject)
      request.on('upgrade', () => reject(new Error('the server changed the protocol')))
      request.end(body)
    })
    // The status suffices, so the body is not read.
    response.on('error', () => undefined)
    return response.statusCode ?? 0
  } finally {
    connection.destroy()
    socket.destroy()
  }
}

function secured(socket: Socket, host: string): Socket {
  return connectTls({ socket, ...(isIP(host) === 0 ? { servername: host } : {}) })
}

function answered(status: number, urlVariable: string): LonghaulError {
  const mayPass = status >= 500 || status === 408 || status === 425 || status === 429
  if (mayPass) return unavailable(urlVariable, `status ${status}`)
  return new LonghaulError({
    code: 'Alarm.Refused',
    message: `The receiver of alarms in ${urlVariable} answered with status ${status}${status >= 300 && status < 400 ? ', and redirections are not followed' : ''}: check that the address, the secret and the template are those that it expects`,
  })
}

function refusedAddress(urlVariable: string): LonghaulError {
  return new LonghaulError({
    code: 'Alarm.Refused',
    message: `The receiver of alarms in ${urlVariable} has no public address: name its host in ${INSIDE_VARIABLE} of the control workers, as host or host:port, if alarms may go there`,
  })
}

function unavailable(urlVariable: string, reason: string): LonghaulError {
  return new LonghaulError({
    code: 'Alarm.Unavailable',
    message: `The receiver of alarms in ${urlVariable} did not accept one: ${reason}`,
  })
}

/** Returns only a code, because network messages contain addresses, and a cause would be stored in histories. */
function reasonOf(error: unknown): string {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    const { code } = link as { code?: unknown }
    if (typeof code === 'string' && /^[A-Z_0-9]{3,60}$/.test(code)) return code
  }
  return error instanceof EgressFailed ? 'no connection' : 'the connection broke'
}
