import { DefaultLogger, type LogEntry, Runtime } from '@temporalio/worker'

/** One JSON line an entry on stderr: what a log collector of a cluster reads. Call before the first connection. */
export function installRuntime(role: string): void {
  Runtime.install({
    logger: new DefaultLogger('INFO', (entry) => process.stderr.write(`${JSON.stringify(logLine(role, entry))}\n`)),
    telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'WARN' } } },
  })
}

function logLine(role: string, { level, message, meta, timestampNanos }: LogEntry): Record<string, unknown> {
  const { error, ...rest } = meta ?? {}
  const failure = error instanceof Error ? { error: error.message, stack: error.stack } : { error }
  return {
    time: new Date(Number(timestampNanos / 1_000_000n)).toISOString(),
    level,
    role,
    message,
    ...rest,
    ...(error === undefined ? {} : failure),
  }
}
