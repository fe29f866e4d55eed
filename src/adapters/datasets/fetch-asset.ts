import { type IncomingMessage, request as sendRequest } from 'node:http'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { LonghaulError } from '../../contracts/errors.ts'
import type { TaskAsset } from '../../contracts/tasks.types.ts'
import { createSlots } from '../../platform/limiter.ts'
import { PIECE_BYTES, shortageOf } from '../egress/metered-upstreams.ts'
import { type DialOptions, dialPublic } from '../egress/open-upstream.ts'

/** Limit per file. Files are pictures of some hundred KB, and upstream waits as long. */
const TIMEOUT_MS = 60_000
/** Limit for all files of a row, which the worker holds in memory together; a small piece counts as one KiB. */
const MAX_BYTES = 64 * 1024 * 1024
const MAX_AT_ONCE = 4
const MAX_REDIRECTS = 5

/** Hosts inside the operator's own network that rows may name, as `host` or `host:port`, separated by commas. */
const INSIDE_VARIABLE = 'LONGHAUL_ASSET_HOSTS'

export interface FetchAssetOptions extends Omit<DialOptions, 'signal'> {
  /** Limit for all files together. @default 64 MiB */
  maxBytes?: number
  /** Hosts that may be reached although they are not public. @default `LONGHAUL_ASSET_HOSTS` */
  inside?: readonly string[]
}

export interface FetchedAsset {
  path: string
  url: string
  /** What the row says of its bytes; not compared here. */
  sha256?: string
  bytes: Uint8Array
}

/** The remaining bytes for a row's files. */
interface Budget {
  bytes: number
  leftBytes: number
}

/**
 * Fetches the files of a row that no patch can carry, except those without an address in the row, which upstream ignores too. Rows are
 * untrusted, so only public addresses are reached: each connection uses the address that was checked, again for every redirect, and the
 * total size is limited.
 * @throws LonghaulError `Grading.Failed` if a file cannot be fetched now: upstream would test without it and blame the patch
 */
export async function fetchAssets(
  assets: readonly TaskAsset[],
  signal: AbortSignal,
  { maxBytes = MAX_BYTES, ...options }: FetchAssetOptions = {},
): Promise<FetchedAsset[]> {
  const slots = createSlots(MAX_AT_ONCE)
  const budget = { bytes: maxBytes, leftBytes: maxBytes }
  const failed = new AbortController()
  const ending = AbortSignal.any([signal, failed.signal])
  const fetching = assets
    .flatMap(({ url, ...asset }) => (url === null ? [] : [{ ...asset, url }]))
    .map((asset) =>
      slots.use(async () => {
        const bytes = await fetchAsset(asset, ending, { ...options, budget })
        return { ...asset, bytes }
      }, ending),
    )
  try {
    return await Promise.all(fetching)
  } catch (error) {
    failed.abort(error)
    await Promise.allSettled(fetching)
    throw error
  }
}

async function fetchAsset(
  { path, url }: { path: string; url: string },
  signal: AbortSignal,
  options: DownloadOptions,
): Promise<Uint8Array> {
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

type DownloadOptions = Omit<FetchAssetOptions, 'maxBytes'> & { budget: Budget }

async function download(first: string, signal: AbortSignal, options: DownloadOptions): Promise<Uint8Array> {
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
      return await readBody(response, options.budget)
    } finally {
      response.destroy()
    }
  }
  throw new Error(`more than ${MAX_REDIRECTS} redirections`)
}

async function ask(url: URL, signal: AbortSignal, options: DownloadOptions): Promise<IncomingMessage> {
  const isSecure = url.protocol === 'https:'
  if (!isSecure && url.protocol !== 'http:') throw new Error(`${url.protocol} is no protocol of assets`)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const port = Number(url.port || (isSecure ? 443 : 80))
  const mayReachAny = isInside(host, port, options.inside)
  const socket = await dialPublic({ host, port }, { ...options, signal, mayReachAny })
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
    request.on('information', () => spend(options.budget, PIECE_BYTES, (error) => request.destroy(error)))
    request.on('response', resolve)
    request.on('error', reject)
    // Without a listener, either event would leave the request open.
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

function readBody(response: IncomingMessage, budget: Budget): Promise<Uint8Array> {
  const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>()
  const chunks: Buffer[] = []
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk)
    spend(budget, chunk.length + shortageOf(chunk), (error) => response.destroy(error))
  })
  response.on('end', () => resolve(Buffer.concat(chunks)))
  response.on('error', reject)
  response.on('close', () => reject(new Error('the connection broke')))
  return promise
}

function spend(budget: Budget, bytes: number, refuse: (error: Error) => void): void {
  budget.leftBytes -= bytes
  if (budget.leftBytes < 0) refuse(new Error(`the row's files have more than ${budget.bytes} bytes`))
}
