import type { Clock } from '../../src/platform/clock.ts'

export interface FakeClock extends Clock {
  /** Advances the time and runs every repetition that becomes due, in order. */
  pass(ms: number): void
}

export function createFakeClock(): FakeClock {
  let nowMs = 1_700_000_000_000
  const repeated = new Set<{ everyMs: number; dueMs: number; action: () => void }>()
  return {
    now: () => nowMs,
    repeat(everyMs, action) {
      const one = { everyMs, dueMs: nowMs + everyMs, action }
      repeated.add(one)
      return () => void repeated.delete(one)
    },
    pass(ms) {
      const endMs = nowMs + ms
      for (;;) {
        const [next] = [...repeated].filter(({ dueMs }) => dueMs <= endMs).toSorted((a, b) => a.dueMs - b.dueMs)
        if (next === undefined) break
        nowMs = next.dueMs
        next.dueMs += next.everyMs
        next.action()
      }
      nowMs = endMs
    },
  }
}
