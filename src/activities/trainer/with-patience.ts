import { isLonghaulError, LonghaulError } from '../../contracts/errors.ts'

export interface Patience {
  patienceMs: number
  /** When the waiting began, over all attempts; ms since 1970. */
  sinceMs: number
  /** @default Date.now */
  now?: () => number
}

/**
 * Makes an end of waiting for a policy server that does not answer: `Model.Unavailable` is tried again for ever, so the first
 * one after the patience is used up becomes `Model.Unreachable`, which is not. A server that answers "busy" is another matter.
 */
export async function withPatience<T>(
  { patienceMs, sinceMs, now = Date.now }: Patience,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    const waitedMs = now() - sinceMs
    if (!isLonghaulError(error) || error.code !== 'Model.Unavailable' || waitedMs < patienceMs) throw error
    throw new LonghaulError({
      code: 'Model.Unreachable',
      message:
        `The policy server has not answered for ${Math.round(waitedMs / 1000)} s: ${error.message}. Start it (longhaul up starts the ` +
        'embedded one), correct policyServer.url or LONGHAUL_POLICY_URL, or raise policyServer.patienceS',
      cause: error,
    })
  }
}
