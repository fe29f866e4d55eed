/**
 * Waits for work that does not react to the signal, such as that of a hanging store.
 * @throws the signal's reason once it aborts: the work is abandoned, and what becomes of it later is ignored
 */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>()
  const giveUp = (): void => reject(signal.reason as Error)
  signal.addEventListener('abort', giveUp, { once: true })
  if (signal.aborted) giveUp()
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}
