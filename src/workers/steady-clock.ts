/** Milliseconds since 1970 as of its start, going on by a counter that no one sets: ages measured by it survive a clock
 *  that jumps an hour, and nothing is reaped for it. */
export function createSteadyClock(startMs: number = Date.now()): () => number {
  const started = performance.now()
  return () => startMs + (performance.now() - started)
}
