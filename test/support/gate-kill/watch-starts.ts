import { setTimeout as sleep } from 'node:timers/promises'
import type { Engine } from '../../../src/adapters/docker/engine.ts'
import { type GraderStart, graderStarts } from '../grade-kill/grader-starts.ts'

/** An engine remembers its last 256 events only, which a shared one has within a minute: they are asked for all the time. */
const EVERY_MS = 2_000
/** Looks overlap, for clocks and slow answers. */
const OVERLAP_MS = 10_000

/** Collects the starts of a run's grading containers from now until `stop`. */
export function watchStarts(engine: Engine, run: string): { stop(): Promise<GraderStart[]> } {
  const found = new Map<string, GraderStart>()
  const over = new AbortController()
  let sinceMs = Date.now()
  const look = async (): Promise<void> => {
    const askedMs = Date.now()
    for (const start of await graderStarts(engine, { run, sinceMs: sinceMs - OVERLAP_MS })) {
      found.set(`${start.episode} ${start.atMs}`, start)
    }
    sinceMs = askedMs
  }
  const watching = (async () => {
    while (!over.signal.aborted) {
      await look()
      await sleep(EVERY_MS, undefined, { signal: over.signal }).catch(() => undefined)
    }
    await look()
  })()
  // Looked at when it stops.
  watching.catch(() => undefined)
  return {
    async stop() {
      over.abort()
      await watching
      return [...found.values()]
    },
  }
}
