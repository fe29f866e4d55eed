import { setTimeout as sleep } from 'node:timers/promises'

/** What a worker does again and again beside its tasks. */
export interface Rounds {
  /** Resolves when the current round has ended. */
  stop(): Promise<void>
}

/** Calls `round` at once and then after each pause. The signal is aborted by `stop`. `round` must not throw. */
export function startRounds(everyMs: number, round: (stopping: AbortSignal) => Promise<void>): Rounds {
  const stopping = new AbortController()
  const { signal } = stopping
  const done = (async () => {
    while (!signal.aborted) {
      await round(signal)
      await sleep(everyMs, undefined, { signal }).catch(() => undefined)
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await done
    },
  }
}
