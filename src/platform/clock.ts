/** Time as a display needs it; tests hand in their own. */
export interface Clock {
  /** ms since 1970. */
  now(): number
  /** @returns what ends it */
  repeat(everyMs: number, action: () => void): () => void
}

export const systemClock: Clock = {
  now: () => Date.now(),
  repeat: (everyMs, action) => {
    const timer = setInterval(action, everyMs)
    return () => clearInterval(timer)
  },
}
