import { HubApiError } from '@huggingface/hub'
import { LonghaulError } from '../../contracts/errors.ts'

/** A commit of a repository of the hub: a branch or tag may move under a published figure. */
export const COMMIT = /^[0-9a-f]{40}$/
const REQUEST_TIMEOUT_MS = 120_000
export const ATTEMPTS = 3
/** Of one request: what a slow line brings well within the time limit. */
export const RANGE_BYTES = 8 * 1024 * 1024

/** A request that hangs, is refused for now or meets a broken server is made again; the last answer stands. */
export async function patientFetch(...[url, init]: Parameters<typeof fetch>): Promise<Response> {
  const stop = init?.signal ?? null
  for (let attempt = 1; ; attempt += 1) {
    const timeout = AbortSignal.timeout(REQUEST_TIMEOUT_MS)
    try {
      const signal = stop === null ? timeout : AbortSignal.any([stop, timeout])
      const response = await fetch(url, { ...init, signal })
      if (!mayPass(response) || attempt === ATTEMPTS) return response
      await response.body?.cancel()
    } catch (error) {
      if (attempt === ATTEMPTS || stop?.aborted === true) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * attempt))
  }
}

/** Whether another attempt may meet another answer. */
export function mayPass({ status }: Response): boolean {
  return status === 429 || status >= 500
}

/**
 * An answer that breaks off is asked for again.
 * @throws LonghaulError `Artifact.Unavailable` when it always does; HubApiError as the hub answered
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
