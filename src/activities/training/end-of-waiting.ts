import { ApplicationFailure } from '@temporalio/activity'
import { isLonghaulError, LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { Failing } from '../../contracts/waits.types.ts'

export interface Waiting {
  /** How long a server may be silent. */
  unavailableTimeoutMs: number
  /** The failures of the attempts directly before this one; null if the last one did not fail. */
  failing: Failing | null
  /** When this attempt began to query the server, ms since 1970; read after a failure. */
  startedMs: number
  /** @default Date.now */
  now?: () => number
}

/** An operator ends these failures by serving the policy or by freeing the full server. The activity's preset is the limit. */
const WAIT_FOR_A_PERSON: ReadonlySet<FailureCode> = new Set<FailureCode>(['Model.NotServed', 'Model.Busy'])

/** A failure that repeats this often does not pass on its own. */
const MOST_TRIES = 20

/**
 * Decides which failures of publishing are worth another attempt; the preset allows two weeks of them. A server that does not answer
 * ends the run as `Model.Unreachable` after its time limit, counted from the beginning of its silence; days in which it served another
 * policy do not count. Every failure that no operator is expected to fix ends the run after twenty equal attempts.
 */
export async function endOfWaiting<T>(waiting: Waiting, work: () => Promise<T>): Promise<T> {
  const { unavailableTimeoutMs, failing, now = Date.now } = waiting
  try {
    return await work()
  } catch (error) {
    const { code, message, retryable } = toLonghaulError(error)
    if (!retryable || WAIT_FOR_A_PERSON.has(code)) throw error
    const before = failing?.code === code ? failing : null
    const waitedMs = now() - (before?.sinceMs ?? waiting.startedMs)
    if (code === 'Model.Unavailable' && isLonghaulError(error)) {
      if (waitedMs < unavailableTimeoutMs) throw error
      throw unreachable(error, waitedMs)
    }
    if ((before?.tries ?? 0) + 1 < MOST_TRIES) throw error
    throw ApplicationFailure.create({
      type: code,
      message: `${message} (the same for ${MOST_TRIES} attempts)`,
      nonRetryable: true,
      cause: error as Error,
    })
  }
}

function unreachable(error: LonghaulError, waitedMs: number): LonghaulError {
  return new LonghaulError({
    code: 'Model.Unreachable',
    message:
      `The policy server has not answered for ${Math.round(waitedMs / 1000)} s: ${error.message}. Start it (longhaul up starts the ` +
      'embedded one), correct policyServer.url or LONGHAUL_POLICY_URL, or raise policyServer.patienceS',
    cause: error,
  })
}
