import { LonghaulError } from '../../contracts/errors.ts'
import { sha256Hex } from '../../platform/hash.ts'

const SEAL = /,?"sha256":"([0-9a-f]{64})"\}\n$/

/**
 * A record proves itself: the last field is the hash of the JSON text without that field, so a reader needs neither the
 * reference nor a canonical form of JSON, only the bytes.
 */
export function sealRecord(record: object): Uint8Array {
  const { sha256: _replaced, ...content } = record as { sha256?: unknown }
  const text = JSON.stringify(content)
  const separator = text === '{}' ? '' : ','
  return Buffer.from(`${text.slice(0, -1)}${separator}"sha256":"${sha256Hex(text)}"}\n`)
}

/** The record without its seal. @throws LonghaulError `Artifact.Corrupt` */
export function openRecord<T extends object>(key: string, bytes: Uint8Array): T {
  const sealed = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  const match = SEAL.exec(sealed)
  if (match === null) throw corrupt(key, 'no sha256 as the last field')
  const text = `${sealed.slice(0, match.index)}}`
  if (sha256Hex(text) !== match[1]) throw corrupt(key, 'content differs from its sha256')
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw corrupt(key, 'not JSON', cause)
  }
}

export function corrupt(key: string, fault: string, cause?: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Corrupt',
    message: 'Expected stored bytes to match their hash',
    details: { key, fault },
    cause,
  })
}
