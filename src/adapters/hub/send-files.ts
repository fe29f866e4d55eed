/** Requests that write to a hub: large bodies that may take hours, and commits that are made once. */
import { ATTEMPTS, mayPass, patientFetch } from './requests.ts'

/** Of an upload: no byte leaves, or no answer follows the last one. */
const SILENCE_MS = 120_000
/** A commit of hundreds of large files is some work for the hub. */
const COMMIT_MS = 600_000

export interface SenderInput {
  /** Bytes of large files as they leave; negative for those that leave again. */
  onBytes: (count: number) => void
  signal: AbortSignal
}

/**
 * Bodies of files are sent again as a whole after a failure, and watched for silence instead of an end. A commit is sent once, because
 * an answer that is lost says nothing about the commit.
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
    // Not cleared: it bounds the reading of the answer too.
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

/** Says how much of a file was read, which the client of the hub leaves on disk. */
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
