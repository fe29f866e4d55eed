import { abortOnInterrupt } from '../../src/platform/interrupts.ts'

/** Aborts on Ctrl-C or SIGTERM, so that a bench stops what it has started; a second signal ends the process at once. */
export function interruption(): AbortSignal {
  return abortOnInterrupt((signal) => new Error(signal)).signal
}
