import { setTimeout as sleep } from 'node:timers/promises'
import { NativeConnection, Worker, type WorkerOptions, DefaultLogger, type LogEntry, Runtime } from '@temporalio/worker'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import { quoteAddress } from '../platform/quote-address.ts'
import { dataConverterOf } from '../platform/data-converter.ts'
import { requireSearchAttributes } from '../platform/search-attributes.ts'
import { probeTemporal, refusedNamespace, unknownNamespace, unreachableTemporal } from '../platform/temporal-reach.ts'
import type { TemporalSettings } from '../platform/temporal-settings.ts'
import { composeRole, type Composed } from './compose-role.ts'
import { type Interposers, PASS_THROUGH } from './connect.ts'
import { openHealth } from './health.ts'
import { metered, metricsOptions } from './metrics.ts'
import { openTraces } from '../platform/traces.ts'
import { tracedOptions } from './traces.ts'
import { requireUsable } from './require-usable.ts'
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
 * Runs a worker until SIGTERM or SIGINT, and resolves once it has drained. Activities that are still running after the grace period are
 * cancelled and repeated by the next attempt, which records and journals make safe.
 * @throws LonghaulError `Config.Invalid` before anything else is started, `Temporal.Unreachable`
 */
export async function runWorker({
  role,
  environment = readWorkerEnvironment(),
  interposers = PASS_THROUGH,
}: RunWorkerOptions): Promise<void> {
  const roles: readonly Role[] = role === 'all' ? ROLES : [role]
  // Opened first, because an orchestrator checks at once and a process that waits for its Temporal server is alive. Checks that refuse
  // the start come before the runtime, whose threads would keep a failed process running.
  const health = await openHealth()
  await requireUsable(roles, environment)
  const traces = await openTraces(role, { warn: (message) => Runtime.instance().logger.warn(message) })
  installRuntime(role)
  const connection = await connect(environment)
  const forgetStrayErrors = surviveStrayErrors((line) => process.stderr.write(line))
  const composed: Composed[] = []
  const work = async (): Promise<void> => {
    if (roles.includes('control')) {
      await requireSearchAttributes({ connection, ...environment.temporal, patienceMs: PATIENCE_MS })
    }
    const between = metered(interposers, Runtime.instance().metricMeter)
    for (const one of roles) composed.push(await composeRole(one, environment, connection, between))
    const options = composed.flatMap(({ workers }) => workers)
    const traced = options.map((plan) => ({ ...plan, ...tracedOptions(traces) }))
    const workers = await createWorkers(connection, environment.temporal, traced)
    health?.watch(workers)
    await runTogether(workers, composed)
  }
  const letGo = async (): Promise<void> => {
    const ends = await Promise.allSettled(composed.map(({ dispose }) => dispose()))
    ends.push(...(await Promise.allSettled([connection.close(), traces?.close(TRACES_CLOSE_MS), health?.close()])))
    forgetStrayErrors()
    throwFirst(ends)
  }
  const [worked] = await Promise.allSettled([work()])
  const [letGone] = await Promise.allSettled([letGo()])
  // The reason for the end takes precedence over errors of closing.
  throwFirst([worked, letGone])
}

/** Time for the last spans. A supervisor waits longer for a worker to end. */
const TRACES_CLOSE_MS = 3_000

/** The SDK stops its workers on these signals, but notifies activities only after their grace period. */
const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGQUIT', 'SIGUSR2'] as const

/** A failed worker ends the others too, because a partial process would look healthy. */
async function runTogether(workers: readonly Worker[], composed: readonly Composed[]): Promise<void> {
  const beginStop = (): void => composed.forEach((one) => one.beginStop?.())
  const stopAll = (): void => {
    beginStop()
    for (const worker of workers) if (worker.getState() === 'RUNNING') worker.shutdown()
  }
  for (const signal of STOP_SIGNALS) process.once(signal, beginStop)
  const broken: PromiseSettledResult<unknown>[] = []
  for (const one of composed) {
    one.broken?.catch((reason: unknown) => {
      broken.push({ status: 'rejected', reason })
      stopAll()
    })
  }
  try {
    const ends = await Promise.allSettled(workers.map((worker) => worker.run().finally(stopAll)))
    throwFirst([...broken, ...ends])
  } finally {
    for (const signal of STOP_SIGNALS) process.off(signal, beginStop)
  }
}

function throwFirst(ends: readonly PromiseSettledResult<unknown>[]): void {
  for (const end of ends) if (end.status === 'rejected') throw end.reason
}

type WorkerPlan = Omit<WorkerOptions, 'connection'>

/**
 * Creates all workers, or none and throws. A worker that was created and never ran would keep its connection, and thereby the process,
 * open. If the server is busy when it is asked for the namespace, the request is retried for half a minute.
 * @throws LonghaulError `Config.NotFound` for an unknown namespace, `Temporal.Unreachable`, `Temporal.Refused`
 */
export async function createWorkers(
  connection: NativeConnection,
  temporal: TemporalSettings,
  plans: readonly WorkerPlan[],
): Promise<Worker[]> {
  const deadline = Date.now() + PATIENCE_MS
  const workers: Worker[] = []
  try {
    while (workers.length < plans.length) {
      const [made] = await Promise.allSettled([createWorker(connection, temporal, plans[workers.length] as WorkerPlan)])
      if (made.status === 'fulfilled') workers.push(made.value)
      else if (isBusy(made.reason) && Date.now() < deadline) await sleep(500)
      else throw explained(made.reason, temporal)
    }
    return workers
  } catch (error) {
    await Promise.allSettled(workers.map((worker) => worker.runUntil(Promise.resolve())))
    throw error
  }
}

/** Matches a failed call of Core, whose only status is in its text: gRPC's codes by name, or the wording of a call while connecting. */
const REFUSED = /Unauthenticated|PermissionDenied|valid authentication credentials|does not have permission/i

/** Core asks for the namespace before it creates a worker, and reports every failure of that request in one text that contains the
 *  status. */
function isBusy(cause: unknown): boolean {
  return (
    /could not be described/.test(String(cause)) &&
    !/code: (?:NotFound|Unauthenticated|PermissionDenied)/.test(String(cause))
  )
}

function explained(cause: unknown, temporal: TemporalSettings): unknown {
  if (/code: NotFound/.test(String(cause))) return unknownNamespace(temporal, cause)
  return refusedOr(cause, temporal)
}

function refusedOr(cause: unknown, temporal: TemporalSettings): unknown {
  return REFUSED.test(String(cause)) ? refusedNamespace(temporal, cause) : cause
}

function createWorker(
  connection: NativeConnection,
  { namespace }: TemporalSettings,
  plan: WorkerPlan,
): Promise<Worker> {
  return Worker.create({
    connection,
    namespace,
    ...dataConverterOf(),
    // A stopped turn is not lost, because the journal has it, so a restart need not wait long.
    shutdownGraceTime: '5s',
    shutdownForceTime: '30s',
    // Limits the delay of a cancellation.
    maxHeartbeatThrottleInterval: '5s',
    defaultHeartbeatThrottleInterval: '5s',
    ...plan,
  })
}

const CONNECT_TIMEOUT_MS = 15_000
const PATIENCE_MS = 30_000

/** Waits half a minute for a server that starts at the same moment as its workers, and then fails with a clear error. */
async function connect({ temporal }: WorkerEnvironment): Promise<NativeConnection> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    try {
      return await open(temporal)
    } catch (cause) {
      if (isLonghaulError(cause)) throw cause
      if (Date.now() < deadline) {
        await sleep(500)
        continue
      }
      throw unreachableTemporal(temporal.address, await probeTemporal(temporal), cause)
    }
  }
}

async function open(temporal: TemporalSettings): Promise<NativeConnection> {
  // A server that accepts connections but never answers must not delay the start longer than one that refuses.
  const silence = sleep(CONNECT_TIMEOUT_MS, undefined, { ref: false }).then(() => {
    throw new Error(`no answer within ${CONNECT_TIMEOUT_MS / 1000} s`)
  })
  try {
    const { address, credentials } = temporal
    return await Promise.race([NativeConnection.connect({ address, ...credentials }), silence])
  } catch (cause) {
    throw refusedOr(cause, temporal)
  }
}

/** Writes one JSON line per entry to stderr, for a cluster's log collector. Must be called before the first connection. */
function installRuntime(role: string): void {
  const telemetry = metricsOptions()
  try {
    installLogged(role, telemetry)
  } catch (cause) {
    const variable = process.env['LONGHAUL_METRICS_ADDRESS'] ? 'LONGHAUL_METRICS_ADDRESS' : 'LONGHAUL_METRICS_OTLP'
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: `${variable} is ${quoteAddress(process.env[variable] ?? '')}, which cannot be used: ${(cause as Error).message}`,
      cause,
    })
  }
}

function installLogged(role: string, telemetry: ReturnType<typeof metricsOptions>): void {
  Runtime.install({
    logger: new DefaultLogger('INFO', (entry) => process.stderr.write(`${JSON.stringify(logLine(role, entry))}\n`)),
    telemetryOptions: { logging: { forward: {}, filter: { core: 'WARN', other: 'WARN' } }, ...telemetry },
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
