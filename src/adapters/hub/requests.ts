import { HubApiError } from '@huggingface/hub'
import { LonghaulError } from '../../contracts/errors.ts'
import { requireHeaderValue } from '../../platform/quote-address.ts'

export const PUBLIC_HUB = 'https://huggingface.co'

/** A commit id of a hub repository. Published figures need one, because a branch or tag may move. */
export const COMMIT = /^[0-9a-f]{40}$/
const REQUEST_TIMEOUT_MS = 120_000
const ATTEMPTS = 3
/** Size of one range request, which a slow connection transfers well within the time limit. */
export const RANGE_BYTES = 8 * 1024 * 1024

/** Limit of an uncompressed answer without a range: listings, small files, and files of hubs without range support. */
const MAX_ANSWER_BYTES = 256 * 1024 * 1024

/** Retries a request that hangs, is refused temporarily or meets a server error, and returns the last answer. The body fails if it
 *  is longer than requested. */
export async function patientFetch(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
  const stop = init?.signal ?? null
  for (let attempt = 1; ; attempt += 1) {
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    try {
      const signal = stop === null ? timeout : AbortSignal.any([stop, timeout])
      const response = await fetch(url, { ...init, signal })
      if (!mayPass(response) || attempt === ATTEMPTS) return bounded(response, init)
      await response.body?.cancel()
    } catch (error) {
      if (attempt === ATTEMPTS || stop?.aborted === true) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * attempt))
  }
}

function bounded(response: Response, init: RequestInit | undefined): Response {
  if (response.body === null) return response
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(new Headers(init?.headers).get('range') ?? '') ?? []
  const isRange = response.status === 206 && first !== undefined
  let leftBytes = isRange ? Number(last) - Number(first) + 1 : MAX_ANSWER_BYTES
  const complaint = `the hub answered with more than ${leftBytes} bytes`
  const count = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      leftBytes -= chunk.byteLength
      if (leftBytes < 0) throw new Error(complaint)
      controller.enqueue(chunk)
    },
  })
  // Callers read the final address after redirects.
  return Object.defineProperty(new Response(response.body.pipeThrough(count), response), 'url', { value: response.url })
}

/** Returns whether a retry may get another answer. */
function mayPass({ status }: Response): boolean {
  return status === 429 || status >= 500
}

/**
 * Reads a range. A truncated answer is requested again.
 * @throws LonghaulError `Artifact.Unavailable` if every answer is truncated; HubApiError for other answers of the hub
 */
export async function readRange(
  blob: Blob,
  { start, end, path }: { start: number; end: number; path: string },
): Promise<ArrayBuffer> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const bytes = await blob.slice(start, end).arrayBuffer()
      if (bytes.byteLength === end - start) return bytes
      throw new LonghaulError({
        code: 'Artifact.Unavailable',
        message: `Expected ${end - start} bytes of a range, got ${bytes.byteLength}`,
        details: { path, start },
      })
    } catch (error) {
      if (attempt === ATTEMPTS || error instanceof HubApiError) throw error
    }
  }
}

/** Why there was no answer: the system's code for it where there is one, since `fetch failed` says nothing. Without addresses, because
 *  that of a storage is signed. */
export function silenceOf(cause: unknown): string {
  const inner: unknown = cause instanceof Error ? (cause.cause ?? cause) : cause
  const { code, message } = (inner ?? {}) as { code?: unknown; message?: unknown }
  // The client's words for a port of another protocol.
  if (message === 'bad port') return 'a port at which no client of HTTP asks'
  return typeof code === 'string'
    ? code
    : JSON.stringify(
        String(message)
          .replaceAll(/https?:\S+/g, 'an address')
          .slice(0, 300),
      )
}

export interface HubPlace {
  /** Null for the public hub. */
  hubUrl: string | null
  /** A token for the hub, and the variable it was read from, for messages. */
  token: { variable: string; value: string | null }
}

export interface Hub {
  url: string
  fetch: typeof fetch
}

/**
 * Connects to a hub. The token is sent only to the hub, because a file may be on another host with a signed address.
 * @param send sends the requests
 * @throws LonghaulError `Config.Invalid` for a token that no request can carry
 */
export function connectHub({ hubUrl, token }: HubPlace, send: typeof fetch = patientFetch): Hub {
  const url = (hubUrl ?? PUBLIC_HUB).replace(/\/$/, '')
  const { origin } = new URL(url)
  if (token.value !== null) requireHeaderValue(token.variable, token.value)
  return {
    url,
    fetch: (address, init) => {
      const target = new URL(address instanceof Request ? address.url : address)
      if (token.value === null || target.origin !== origin) return send(address, init)
      const headers = new Headers(init?.headers)
      headers.set('authorization', `Bearer ${token.value}`)
      return send(address, { ...init, headers })
    },
  }
}

/** Returns the commit that a branch or tag currently points to. @throws HubApiError for the hub's answer; LonghaulError
 *  `Artifact.Unavailable` */
export async function commitOf(
  hub: Hub,
  { kind, name, revision }: { kind: 'models' | 'datasets'; name: string; revision: string },
): Promise<string> {
  const address = `${hub.url}/api/${kind}/${name}/revision/${encodeURIComponent(revision)}`
  const response = await hub.fetch(address)
  if (!response.ok) {
    await response.body?.cancel()
    throw new HubApiError(address, response.status)
  }
  const { sha } = (await response.json()) as { sha?: unknown }
  if (typeof sha === 'string' && COMMIT.test(sha)) return sha
  const [setting, what] = kind === 'models' ? ['--hub-url', 'models'] : ['LONGHAUL_HUB_URL', 'data sets']
  throw new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected the hub to name the commit of ${revision}: is ${setting} a hub of ${what}?`,
    details: { address },
  })
}

// Requests that write to a hub: large bodies that may take hours, and commits that are sent only once.

/** Limit of silence during an upload: no byte is sent, or no answer follows the last one. */
const SILENCE_MS = 120_000
/** Committing hundreds of large files takes the hub a while. */
const COMMIT_MS = 600_000

export interface SenderInput {
  /** Number of bytes of large files as they are sent; negative for bytes that will be sent again. */
  onBytes: (count: number) => void
  signal: AbortSignal
}

/**
 * Retries a failed file body from the start, and limits silence instead of the total time. A commit is sent once, because a lost answer
 * says nothing about the commit.
 */
export function createSender({ onBytes, signal }: SenderInput): typeof fetch {
  return (url, init) => {
    const own = init?.signal ?? null
    const stop = own === null ? signal : AbortSignal.any([signal, own])
    if (init?.body instanceof Blob) return sendBlob(url, init, { body: init.body, onBytes, stop })
    if (init?.method === 'POST' && new URL(url instanceof Request ? url.url : url).pathname.includes('/commit/')) {
      return fetch(url, { ...init, signal: AbortSignal.any([stop, AbortSignal.timeout(COMMIT_MS)]) })
    }
    return patientFetch(url, { ...init, signal: stop })
  }
}

async function sendBlob(
  url: Parameters<typeof fetch>[0],
  init: RequestInit,
  { body, onBytes, stop }: { body: Blob; onBytes: (count: number) => void; stop: AbortSignal },
): Promise<Response> {
  for (let attempt = 1; ; attempt += 1) {
    let sent = 0
    const silence = new AbortController()
    // Not cleared, because it also limits the reading of the answer.
    const timer = setTimeout(() => silence.abort(new Error('nothing moved for two minutes')), SILENCE_MS).unref()
    const watched = watch(body, (count) => {
      sent += count
      timer.refresh()
      onBytes(count)
    })
    try {
      const response = await fetch(url, { ...init, body: watched, signal: AbortSignal.any([stop, silence.signal]) })
      if (!mayPass(response) || attempt === ATTEMPTS) return response
      await response.body?.cancel()
    } catch (error) {
      if (attempt === ATTEMPTS || stop.aborted) throw error
    }
    onBytes(-sent)
    await new Promise((resolve) => setTimeout(resolve, 500 * attempt))
  }
}

/** Reports how much of a file was read. The hub's client streams the file from disk. */
function watch(file: Blob, onRead: (count: number) => void): Blob {
  const count = (): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> =>
    new TransformStream({
      transform(chunk, controller) {
        onRead(chunk.byteLength)
        controller.enqueue(chunk)
      },
    })
  return Object.defineProperties(new Blob([]), {
    size: { value: file.size },
    stream: { value: () => file.stream().pipeThrough(count()) },
  })
}
