import { promisify } from 'node:util'
import { gunzip, gzip } from 'node:zlib'
import type { ArtifactStore } from '../../contracts/artifacts.types.ts'
import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { sha256Hex } from '../../platform/hash.ts'

const COMPRESSED = '.gz'

/** Limit of one test log, which is text of a few MB. A stream that exceeds it is truncated and loses its end marker, so it proves
 *  nothing. */
export const MAX_LOG_BYTES = 16 * 1024 * 1024

/** Limit of a stored log: two streams, and the line that says that the tests were killed. */
export const MAX_STORED_LOG_BYTES = 2 * MAX_LOG_BYTES + 1024

/** The key under which the log of this name is stored. */
export function storedLogKey(key: string): string {
  return `${key}${COMPRESSED}`
}

/**
 * Stores a log under its name. Logs contain times, so a repeated grading produces other bytes. The first log keeps the name; another
 * one, of a grading whose predecessor died before its verdict, is stored beside it by its hash. Hashes in records are of the log
 * itself, not of its compressed form.
 */
export async function keepLog(store: Pick<ArtifactStore, 'put'>, key: string, log: Uint8Array): Promise<void> {
  const packed = await promisify(gzip)(log)
  for (const name of [key, besideKey(key, sha256Hex(log))]) {
    try {
      await store.put(storedLogKey(name), packed)
      return
    } catch (error) {
      if (!isLonghaulError(error) || error.code !== 'Artifact.Conflict') throw error
    }
  }
}

function besideKey(key: string, sha256: string): string {
  return `${key}.${sha256.slice(0, 16)}`
}

/** Reads the log that a verdict rests on. Stores of earlier versions have the first log only. @throws as `readLog` */
export async function readLogOf(
  store: Pick<ArtifactStore, 'read'>,
  key: string,
  sha256: string | undefined,
): Promise<Uint8Array | null> {
  const first = await readLog(store, key)
  if (first === null || sha256 === undefined || sha256Hex(first) === sha256) return first
  return (await readLog(store, besideKey(key, sha256))) ?? first
}

/** Reads a log by its name or by its key; null if there is none. Earlier versions stored logs uncompressed.
 *  @throws LonghaulError `Artifact.Corrupt` if it is not gzip, or larger than a log may be */
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
    // A few kilobytes may decompress to gigabytes, so decompression stops at the limit.
    return await promisify(gunzip)(bytes, { maxOutputLength: MAX_STORED_LOG_BYTES })
  } catch (error) {
    const fault = error instanceof RangeError ? 'it holds more bytes' : 'it is not gzip, or truncated'
    throw new LonghaulError({
      code: 'Artifact.Corrupt',
      message: `Expected ${name} to be a gzip file with at most the ${MAX_STORED_LOG_BYTES} bytes of a log: ${fault}`,
      details: { name, packedBytes: bytes.byteLength },
      cause: error,
    })
  }
}
