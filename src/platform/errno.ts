/** The system's name of what failed, `ENOENT` for example; null for an error that the system did not raise. */
export function errnoOf(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
  return typeof code === 'string' ? code : null
}
