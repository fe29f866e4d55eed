import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'
import { FAILURE_CODES, type FailureCode } from '../../contracts/failure-codes.ts'

/** A failure at one machine's grading, which another machine may not have. The store's failures are no host's, and the
 *  user's are the same everywhere. */
export function isHostFailure(error: unknown): error is LonghaulError {
  if (!isLonghaulError(error)) return false
  return FAILURE_CODES[error.code].countsAs !== 'user' && /^(Sandbox|Grading)\./.test(error.code)
}

/** The same failure as one that any host may try again: a missing image would not be retried under its own code. */
export function gradingFailed(cause: LonghaulError, at: { host: string; attempt: number }): LonghaulError {
  return new LonghaulError({
    code: 'Grading.Failed',
    message: `Expected host ${at.host} to grade: ${cause.message}`,
    details: { ...at, failure: cause.code },
    cause,
  })
}

/** Why an episode has no verdict, as its record says it. */
export function reasonOf(code: FailureCode): string {
  return code === 'Sandbox.ImageMissing' || code === 'Sandbox.ImageMismatch' ? 'image' : code
}
