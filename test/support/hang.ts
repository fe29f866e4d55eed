import { setTimeout as sleep } from 'node:timers/promises'

/**
 * How long a test waits for what must come. Only something that hangs takes as long: other work may load the machine twentyfold,
 * and a test says what happens, not how fast.
 */
export const HANG_MS = 10 * 60_000

/** A test file that hangs is killed then, with what it would have said (`run.ts`): the slowest needs eight minutes on two idle cores. */
export const FILE_LIMIT_MS = 30 * 60_000

/** For a whole run, or a suite about one: where either hangs, the test says at which phase, before its file is killed. */
export const STORY_MS = 25 * 60_000

/** Tries until it succeeds; what hangs rejects with the last error. */
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
