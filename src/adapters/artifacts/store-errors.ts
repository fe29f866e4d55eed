import type { ArtifactRef } from '../../contracts/artifacts.types.ts'
import { LonghaulError } from '../../contracts/errors.ts'
import { sha256Hex } from '../../platform/hash.ts'
import { corrupt } from './record-text.ts'

export function conflict(ref: ArtifactRef, stored: Uint8Array): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Conflict',
    message: 'Expected the same bytes under a key that is already taken, got others',
    details: { key: ref.key, ours: ref.sha256, stored: sha256Hex(stored), storedBytes: stored.byteLength },
  })
}

export function missingArtifact(key: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected a stored artifact, found none',
    details: { key },
  })
}

/** The bytes, if they are what the reference names. @throws LonghaulError `Artifact.Missing`, `Artifact.Corrupt` */
export function requireReferenced<T extends Uint8Array>(ref: ArtifactRef, bytes: T | null): T {
  if (bytes === null) throw missingArtifact(ref.key)
  if (bytes.byteLength !== ref.bytes) throw corrupt(ref.key, `expected ${ref.bytes} bytes, found ${bytes.byteLength}`)
  if (sha256Hex(bytes) !== ref.sha256) throw corrupt(ref.key, 'content differs from the reference')
  return bytes
}
