import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { errnoOf } from '../../platform/errno.ts'

export function missingArtifact(key: string): LonghaulError {
  return new LonghaulError({
    code: 'Artifact.Missing',
    message: 'Expected a stored artifact, found none',
    details: { key },
  })
}

/** A full disk has a code of its own. Read-only mount, I/O error, no permission, no descriptors: all may pass once an operator acts, so all are retryable. */
export function asStoreError(error: unknown, key: string): LonghaulError {
  if (isLonghaulError(error)) return error
  const errno = errnoOf(error)
  if (errno === 'ENOENT') return missingArtifact(key)
  if (errno === 'ENOSPC' || errno === 'EDQUOT') {
    return new LonghaulError({
      code: 'Artifact.OutOfDisk',
      message: 'Expected room in the artifact store, its disk is full',
      details: { key, errno },
      cause: error,
    })
  }
  return new LonghaulError({
    code: 'Artifact.Unavailable',
    message: `Expected the artifact store to accept an operation, got ${errno ?? String(error)}`,
    details: { key, errno },
    cause: error,
  })
}
