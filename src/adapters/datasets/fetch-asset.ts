import { LonghaulError } from '../../contracts/errors.ts'
import type { TaskAsset } from '../../contracts/tasks.types.ts'

/** Pictures of some hundred KB; upstream waits as long. */
const TIMEOUT_MS = 60_000
const MAX_BYTES = 64 * 1024 * 1024

export type FetchAsset = (asset: TaskAsset, signal: AbortSignal) => Promise<Uint8Array | null>

/**
 * A file of a row that no patch can carry; null where the row does not say where it is, which upstream passes over.
 * @throws LonghaulError `Grading.Failed` where it cannot be had now: upstream would test without it and call that the patch's fault
 */
export const fetchAsset: FetchAsset = async ({ path, url }, signal) => {
  if (url === null) return null
  try {
    const response = await fetch(url, { signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const bytes = new Uint8Array(await response.arrayBuffer())
    if (bytes.byteLength > MAX_BYTES) throw new Error(`${bytes.byteLength} bytes`)
    return bytes
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
