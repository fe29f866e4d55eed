/**
 * A terminal signals its whole process group, and npm forwards the signal to its child again: another signal within this time belongs
 * to the same Ctrl-C. A user needs longer for a second one.
 */
const SAME_SIGINT_MS = 250
/** `timeout` and job systems signal a whole process group, and each parent in between forwards it. Users do not send it twice. */
const SAME_SIGTERM_MS = 2_000

const SAME_INTERRUPT = { SIGINT: SAME_SIGINT_MS, SIGTERM: SAME_SIGTERM_MS } as const

type Interrupt = keyof typeof SAME_INTERRUPT

/** Calls `heard` once for each interrupt with their number so far. @returns a function that stops listening */
export function onInterrupts(heard: (signal: Interrupt, count: number) => void): () => void {
  let count = 0
  let lastMs = Number.NEGATIVE_INFINITY
  const received = (signal: NodeJS.Signals): void => {
    const nowMs = performance.now()
    const isRepeated = nowMs - lastMs < SAME_INTERRUPT[signal as Interrupt]
    lastMs = nowMs
    if (isRepeated) return
    count += 1
    heard(signal as Interrupt, count)
  }
  const signals = Object.keys(SAME_INTERRUPT) as Interrupt[]
  for (const signal of signals) process.on(signal, received)
  return () => {
    for (const signal of signals) process.off(signal, received)
  }
}

/** Aborts on the first interrupt, so that the process ends what it has started. A second one ends the process at once. */
export function abortOnInterrupt(reason: (signal: Interrupt) => Error): { signal: AbortSignal; stop: () => void } {
  const abort = new AbortController()
  const stop = onInterrupts((signal, count) => {
    if (count === 1) {
      abort.abort(reason(signal))
      return
    }
    stop()
    process.kill(process.pid, signal)
  })
  return { signal: abort.signal, stop }
}
