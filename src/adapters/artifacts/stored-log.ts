import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'

const COMPRESSED = '.gz'

/** Test logs are text of a few MB. What floods one of a grading's streams is cut: its end marker is gone then, so it proves nothing. */
export const MAX_LOG_BYTES = 16 * 1024 * 1024

/** Of a stored log: two streams, and the line that says that the tests were ended. */
export const MAX_STORED_LOG_BYTES = 2 * MAX_LOG_BYTES + 1024

/** Where the log of this name is stored. */
export function storedLogKey(key: string): string {
  return `${key}${COMPRESSED}`
}

/** Logs hold times, so a repeated grading writes other bytes: the first log stays, as the first verdict does. Hashes in records
 *  are of the log itself, never of what it is packed in. */
export async function keepLog(store: Pick<ArtifactStore, 'put'>, key: string, log: Uint8Array): Promise<void> {
  try {
    await store.put(storedLogKey(key), await promisify(gzip)(log))
  } catch (error) {
    if (isLonghaulError(error) && error.code === 'Artifact.Conflict') return
    throw error
  }
}

/** A log by its name or by where it is stored; null where there is none. Versions before this one stored logs as they are.
 *  @throws LonghaulError `Artifact.Corrupt` for what is no gzip, and for more than a log may be */
export async function readLog(store: Pick<ArtifactStore, 'read'>, key: string): Promise<Uint8Array | null> {
  if (key.endsWith(COMPRESSED)) {
    const bytes = await store.read(key)
    return bytes === null ? null : unpackLog(key, bytes)
  }
  return (await readLog(store, storedLogKey(key))) ?? store.read(key)
}

/** @param name for the message
 *  @throws LonghaulError `Artifact.Corrupt` */
export async function unpackLog(name: string, bytes: Uint8Array): Promise<Uint8Array> {
  try {
    // A few kilobytes may hold gigabytes: what is longer than any log is given up before it is held.
    return await promisify(gunzip)(bytes, { maxOutputLength: MAX_STORED_LOG_BYTES })
  } catch (error) {
    const fault = error instanceof RangeError ? 'it holds more' : 'it is none, or torn'
    throw new LonghaulError({
      code: 'Artifact.Corrupt',
      message: `Expected ${name} to be a gzip file with at most the ${MAX_STORED_LOG_BYTES} bytes of a log: ${fault}`,
      details: { name, packedBytes: bytes.byteLength },
      cause: error,
    })
  }
}
