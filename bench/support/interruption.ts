import { constants } from 'node:os'
import { abortOnInterrupt, onInterrupts } from '../../src/platform/interrupts.ts'

/** Aborts on Ctrl-C or SIGTERM, so that a bench stops what it has started; a second signal ends the process at once. */
export function interruption(): AbortSignal {
  return abortOnInterrupt((signal) => new Error(signal)).signal
}

/**
 * Runs `stop` on Ctrl-C or SIGTERM and then ends the process, unless the bench listens itself; a second signal ends it at once.
 * @returns a function that stops listening
 */
export function stopOnInterrupt(stop: () => Promise<void>): () => void {
  return onInterrupts((signal, count) => {
    if (process.listenerCount(signal) > 1) return
    const end = (): never => process.exit(128 + constants.signals[signal])
    if (count > 1) end()
    void stop().then(end, end)
  })
}
