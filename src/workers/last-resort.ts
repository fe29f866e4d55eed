/**
 * Logs errors that no handler has caught and keeps the worker running. Such an error belongs to one episode or one connection, while a
 * worker serves many. The affected activity times out by its heartbeat and is retried. Sockets and streams have their own handlers;
 * this covers one that was forgotten.
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
