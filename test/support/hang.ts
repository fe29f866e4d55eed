import { setTimeout as sleep } from 'node:timers/promises'

/**
 * How long a test waits for something that must happen. Only a hang takes as long, although other work may slow the machine
 * twentyfold, because tests do not check speed.
 */
export const HANG_MS = 25 * 60_000

/** A hanging test file is killed after this time, and its output is lost (`run.ts`); the slowest needs eight minutes on two idle
 *  cores, and 30 on slower ones that also compile and lint. */
export const FILE_LIMIT_MS = 60 * 60_000

/** For a whole run, or a suite about one: the test then reports the phase in which it hangs, before its file is killed. */
export const STORY_MS = 50 * 60_000

/** Retries until the attempt succeeds; a hang rejects with the last error. */
export async function eventually<T>(attempt: () => Promise<T>): Promise<T> {
  for (const deadline = Date.now() + HANG_MS; ; ) {
    try {
      return await attempt()
    } catch (error) {
      if (Date.now() > deadline) throw error
      await sleep(500)
    }
  }
}
