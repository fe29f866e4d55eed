import { EXIT, ExitError } from '../output/exit-codes.ts'

/** Runs work that can be aborted; Ctrl-C or SIGTERM aborts it, and the command ends with 130 once it has tidied up. */
export async function untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController()
  const interrupted = (): void => abort.abort(new ExitError(EXIT.interrupted))
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.once(signal, interrupted)
  try {
    return await work(abort.signal)
  } catch (error) {
    throw abort.signal.aborted ? new ExitError(EXIT.interrupted) : error
  } finally {
    for (const signal of signals) process.off(signal, interrupted)
  }
}
