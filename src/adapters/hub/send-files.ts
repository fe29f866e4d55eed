/** Requests that write to a hub: large bodies that may take hours, and commits that are sent only once. */
import { ATTEMPTS, mayPass, patientFetch } from './requests.ts'

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
