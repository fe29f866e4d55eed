import { ApplicationFailure } from '@temporalio/activity'
import { isLonghaulError, LonghaulError, toLonghaulError } from '../../contracts/errors.ts'
import type { FailureCode } from '../../contracts/failure-codes.ts'
import type { Failing } from '../../contracts/waits.types.ts'

export interface Waiting {
  /** How long a server may be silent. */
  unavailableTimeoutMs: number
  /** What the attempts before this one failed with, one after another; null where the last one did not fail. */
  failing: Failing | null
  /** When this attempt began to ask the server, ms since 1970; read when it has failed. */
  startedMs: number
  /** @default Date.now */
  now?: () => number
}

/** An operator ends these failures by serving the policy or by freeing the full server; the activity's preset is the limit. */
const WAIT_FOR_A_PERSON: ReadonlySet<FailureCode> = new Set<FailureCode>(['Model.NotServed', 'Model.Busy'])

/** A failure that repeats this often does not pass by itself. */
const MOST_TRIES = 20

/**
 * Says which failures of publishing are worth another attempt; the preset allows two weeks of them. A server that does not answer
 * ends the run as `Model.Unreachable` after the patience, counted from its first silence: the days in which it served something
 * else do not count. What no person is asked for ends it after twenty attempts alike.
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
