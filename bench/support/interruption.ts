/** Aborted by Ctrl-C or SIGTERM, so that a bench stops what it has started; a second one ends the process at once. */
export function interruption(): AbortSignal {
  const interrupt = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => interrupt.abort(new Error(signal)))
  }
  return interrupt.signal
}
