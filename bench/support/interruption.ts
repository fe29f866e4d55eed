import { abortOnInterrupt } from '../../src/platform/interrupts.ts'

/** Aborts on Ctrl-C or SIGTERM, so that a bench stops what it has started; a second signal ends the process at once. */
export function interruption(): AbortSignal {
  return abortOnInterrupt((signal) => new Error(signal)).signal
}

/** @returns what `work` gives @throws the reason of the signal once that aborts: the work is abandoned, and the caller stops its stack */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const given = Promise.withResolvers<never>()
  const giveUp = (): void => given.reject(signal.reason)
  signal.addEventListener('abort', giveUp, { once: true })
  if (signal.aborted) giveUp()
  try {
    return await Promise.race([work, given.promise])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}
