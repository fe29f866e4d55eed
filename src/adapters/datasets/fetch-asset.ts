import { type IncomingMessage, request as sendRequest } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TaskAsset } from '../../contracts/tasks.types.ts'
import { type DialOptions, dialPublic } from '../egress/open-upstream.ts'

/** Pictures of some hundred KB; upstream waits as long. */
const TIMEOUT_MS = 60_000
const MAX_BYTES = 64 * 1024 * 1024
const MAX_REDIRECTS = 5

/** Hosts inside the operator's own network that rows may name, as `host` or `host:port` with commas between. */
const INSIDE_VARIABLE = 'LONGHAUL_ASSET_HOSTS'

export interface FetchAssetOptions extends DialOptions {
  /** @default 64 MiB */
  maxBytes?: number
  /** Hosts that may be reached although they are not public. @default `LONGHAUL_ASSET_HOSTS` */
  inside?: readonly string[]
}

/**
 * A file of a row that no patch can carry; null where the row does not say where it is, which upstream passes over. Rows come from
 * anywhere, so only public addresses are reached: what is checked is what is dialled, for each redirection anew, and no more is
 * read than a file may hold.
 * @throws LonghaulError `Grading.Failed` where it cannot be had now: upstream would test without it and call that the patch's fault
 */
export async function fetchAsset(
  { path, url }: TaskAsset,
  signal: AbortSignal,
  options: FetchAssetOptions = {},
): Promise<Uint8Array | null> {
  if (url === null) return null
  try {
    return await download(url, AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]), options)
  } catch (cause) {
    signal.throwIfAborted()
    throw new LonghaulError({
      code: 'Grading.Failed',
      message: `Expected the file that the task's tests compare with, but it cannot be fetched`,
      details: { path, url, reason: cause instanceof Error ? cause.message : String(cause) },
      cause,
    })
  }
}

async function download(first: string, signal: AbortSignal, options: FetchAssetOptions): Promise<Uint8Array> {
  let url = first
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects += 1) {
    const response = await ask(new URL(url), signal, options)
    try {
      const { statusCode: status = 0, headers } = response
      if (status >= 300 && status < 400 && headers.location !== undefined) {
        url = new URL(headers.location, url).href
        continue
      }
      if (status !== 200) throw new Error(`status ${status}`)
      return await readBody(response, options.maxBytes ?? MAX_BYTES)
    } finally {
      response.destroy()
    }
  }
  throw new Error(`more than ${MAX_REDIRECTS} redirections`)
}

async function ask(url: URL, signal: AbortSignal, options: FetchAssetOptions): Promise<IncomingMessage> {
  const isSecure = url.protocol === 'https:'
  if (!isSecure && url.protocol !== 'http:') throw new Error(`${url.protocol} is no protocol of assets`)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = Number(url.port || (isSecure ? 443 : 80))
  const socket = await dialPublic({ host, port }, { ...options, mayReachAny: isInside(host, port, options.inside) })
  const connection = isSecure ? secured(socket, host) : socket
  connection.on('error', () => connection.destroy())
  return new Promise((resolve, reject) => {
    const request = sendRequest({
      createConnection: () => connection,
      method: 'GET',
      path: `${url.pathname}${url.search}`,
      headers: { host: url.host, connection: 'close', 'accept-encoding': 'identity' },
      signal,
    })
    request.on('response', resolve)
    request.on('error', reject)
    // Without a listener each of them would leave the request open.
    request.on('upgrade', () => reject(new Error('the server changed the protocol')))
    request.end()
  })
}

function secured(socket: Socket, host: string): Socket {
  return connectTls({ socket, ...(isIP(host) === 0 ? { servername: host } : {}) })
}

function isInside(host: string, port: number, inside?: readonly string[]): boolean {
  return (inside ?? process.env[INSIDE_VARIABLE]?.split(',') ?? []).some(
    (name) => name.trim() === host || name.trim() === `${host}:${port}`,
  )
}

async function readBody(response: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response) {
    bytes += (chunk as Buffer).byteLength
    if (bytes > maxBytes) throw new Error(`more than ${maxBytes} bytes`)
    chunks.push(chunk as Buffer)
  }
  return Buffer.concat(chunks)
}
