/**
 * What no handler has caught belongs to one episode or one connection: a worker serves many, and the activity that is left without an
 * answer ends by its heartbeat and is made again. So the error is logged and nothing else happens. Sockets and streams have handlers of their own;
 * this is for the one that was forgotten.
 */
export function surviveStrayErrors(write: (line: string) => void): () => void {
  const tell =
    (kind: string) =>
    (error: unknown): void => {
      const { message, stack } = error instanceof Error ? error : { message: String(error), stack: undefined }
      write(
        `${JSON.stringify({ time: new Date().toISOString(), level: 'ERROR', message: `stray error: ${kind}`, error: message, stack })}\n`,
      )
    }
  const [onException, onRejection] = [tell('uncaught exception'), tell('unhandled rejection')]
  process.on('uncaughtException', onException)
  process.on('unhandledRejection', onRejection)
  return () => {
    process.off('uncaughtException', onException)
    process.off('unhandledRejection', onRejection)
  }
}
