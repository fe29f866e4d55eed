import { setTimeout as sleep } from 'node:timers/promises'

/** Renews a lease at intervals while `work` lasts. A renewal that fails is left to the next turn, which finds out what
 *  became of the sandbox; one that hangs is not joined by a second. */
export async function renewing<T>(
  { renew, everyMs, signal }: { renew: () => Promise<unknown>; everyMs: number; signal: AbortSignal },
  work: () => Promise<T>,
): Promise<T> {
  const over = new AbortController()
  const until = AbortSignal.any([over.signal, signal])
  const keep = async (): Promise<void> => {
    for (;;) {
      await sleep(everyMs, undefined, { signal: until })
      await renew().catch(() => undefined)
    }
  }
  // It only ends by the signal.
  keep().catch(() => undefined)
  try {
    return await work()
  } finally {
    over.abort()
  }
}
