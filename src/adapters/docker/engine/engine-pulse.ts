import { setTimeout as sleep } from 'node:timers/promises'

export interface EnginePulse {
  /** Time of the last answer, ms since 1970, if a later ping went unanswered; null while the engine answers. */
  silentSinceMs(): number | null
  /** Returns whether the engine, or this process, was silent for long at some time since then while `work` ran. */
  wasSilentSince(ms: number): boolean
  /** Pings the engine every few seconds while `work` runs; calls may overlap. */
  during<T>(work: () => Promise<T>): Promise<T>
  /** Pings at once, then every second until the engine answers. @returns whether it answers by then, ms since 1970. @throws the
   *  signal's reason */
  answersBy(untilMs: number, signal: AbortSignal): Promise<boolean>
}

const EVERY_MS = 5_000
const AGAIN_MS = 1_000
/** If a ping or a timer takes longer, the machine is overloaded, and so are its sandboxes. */
const LONG_MS = 10_000

interface EnginePulseOptions {
  /** Rejects after its own deadline if no answer arrives. */
  ping: () => Promise<unknown>
}

/**
 * Distinguishes a slow command from an engine that has stopped answering (frozen, swapped out, gone), which look alike to the caller
 * that waits for the command. The engine is pinged only while a caller waits.
 */
export function createEnginePulse({ ping }: EnginePulseOptions): EnginePulse {
  let waiting = 0
  let timer: NodeJS.Timeout | undefined
  let lastAnswerMs = Date.now()
  let isSilent = false
  let isAsking = false
  let lastSilenceMs = Number.NEGATIVE_INFINITY
  let lastTickMs = 0

  const ask = async (): Promise<void> => {
    const now = Date.now()
    if (now - lastTickMs > EVERY_MS + LONG_MS) lastSilenceMs = now
    lastTickMs = now
    if (isAsking) return
    isAsking = true
    try {
      await ping()
      isSilent = false
      lastAnswerMs = Date.now()
      if (lastAnswerMs - now > LONG_MS) lastSilenceMs = lastAnswerMs
    } catch {
      isSilent = true
      lastSilenceMs = Date.now()
    } finally {
      isAsking = false
    }
  }

  return {
    silentSinceMs: () => (isSilent ? lastAnswerMs : null),
    wasSilentSince: (ms) => lastSilenceMs >= ms,
    async answersBy(untilMs, signal) {
      for (;;) {
        const answers = await ping().then(
          () => true,
          () => false,
        )
        if (answers) return true
        lastSilenceMs = Date.now()
        const leftMs = untilMs - lastSilenceMs
        if (leftMs <= 0) return false
        await sleep(Math.min(AGAIN_MS, leftMs), undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    },
    async during(work) {
      waiting += 1
      if (waiting === 1) {
        // Without callers there were no pings, so silence is counted from now.
        if (!isSilent) lastAnswerMs = Date.now()
        lastTickMs = Date.now()
        timer = setInterval(() => void ask(), EVERY_MS)
      }
      try {
        return await work()
      } finally {
        waiting -= 1
        if (waiting === 0) {
          clearInterval(timer)
          isSilent = false
        }
      }
    },
  }
}
