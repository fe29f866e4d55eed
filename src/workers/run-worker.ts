import { setTimeout as sleep } from 'node:timers/promises'
import { NativeConnection, Worker, type WorkerOptions, DefaultLogger, type LogEntry, Runtime } from '@temporalio/worker'
import { LonghaulError } from '../contracts/errors.ts'
import { composeRole, type Composed } from './compose-role.ts'
import { type Interposers, PASS_THROUGH } from './connect.ts'
import { readWorkerEnvironment, type WorkerEnvironment } from './worker-environment.ts'
import { surviveStrayErrors } from './last-resort.ts'

export const ROLES = ['control', 'sandbox', 'trainer', 'artifacts'] as const
export type Role = (typeof ROLES)[number]

interface RunWorkerOptions {
  /** `all` serves every role in one process, for a laptop. */
  role: Role | 'all'
  /** @default from the process environment */
  environment?: WorkerEnvironment
  /** @default none */
  interposers?: Interposers
}

/**
 * Runs a worker until SIGTERM or SIGINT; resolves once it has drained. Activities that are still running after the grace
 * time are cancelled and taken up by the next attempt: records and journals make that safe.
 * @throws LonghaulError `Temporal.Unreachable`
 */
export async function runWorker({
  role,
  environment = readWorkerEnvironment(),
  interposers = PASS_THROUGH,
}: RunWorkerOptions): Promise<void> {
  installRuntime(role)
  const connection = await connect(environment)
  const forgetStrayErrors = surviveStrayErrors((line) => process.stderr.write(line))
  const roles: readonly Role[] = role === 'all' ? ROLES : [role]
  const composed: Composed[] = []
  try {
    for (const one of roles) composed.push(await composeRole(one, environment, connection, interposers))
    const workers = await Promise.all(
      composed
        .flatMap(({ workers: options }) => options)
        .map((options) => createWorker(connection, environment, options)),
    )
    await Promise.all(workers.map((worker) => worker.run()))
  } finally {
    await Promise.all(composed.map(({ dispose }) => dispose()))
    await connection.close()
    forgetStrayErrors()
  }
}

function createWorker(
  connection: NativeConnection,
  environment: WorkerEnvironment,
  options: Omit<WorkerOptions, 'connection'>,
): Promise<Worker> {
  return Worker.create({
    connection,
    namespace: environment.namespace,
    // A stopped turn costs nothing (the journal has it), so there is no reason to hold up a restart for long.
    shutdownGraceTime: '5s',
    shutdownForceTime: '30s',
    // Bounds how late a cancel arrives.
    maxHeartbeatThrottleInterval: '5s',
    defaultHeartbeatThrottleInterval: '5s',
    ...options,
  })
}

const CONNECT_TIMEOUT_MS = 15_000

/** The server may start at the same moment as its workers: half a minute of patience, then a clear error. */
async function connect({ temporalAddress }: WorkerEnvironment): Promise<NativeConnection> {
  const deadline = Date.now() + 30_000
  for (;;) {
    try {
      // A server that accepts and says nothing must not hold up the start for longer than one that refuses.
      const silence = sleep(CONNECT_TIMEOUT_MS, undefined, { ref: false }).then(() => {
        throw new Error(`no answer within ${CONNECT_TIMEOUT_MS / 1000} s`)
      })
      return await Promise.race([NativeConnection.connect({ address: temporalAddress }), silence])
    } catch (cause) {
      if (Date.now() < deadline) {
        await sleep(500)
        continue
      }
      throw new LonghaulError({
        code: 'Temporal.Unreachable',
        message: `Expected a Temporal server at ${temporalAddress}; start the local stack (longhaul up) or set LONGHAUL_TEMPORAL_ADDRESS`,
        cause,
      })
    }
  }
}

/** One JSON line an entry on stderr: what a log collector of a cluster reads. Call before the first connection. */
function installRuntime(role: string): void {
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
