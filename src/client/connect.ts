import { setTimeout as sleep } from 'node:timers/promises'
import { Client, Connection, type WorkflowClientInterceptor } from '@temporalio/client'
import { type Headers, defaultPayloadConverter, defineSearchAttributeKey } from '@temporalio/common'
import { isEarlyQuery, isLonghaulError } from '../contracts/errors.ts'
import { dataConverterOf } from '../platform/data-converter.ts'
import { explainAnswer, probeTemporal, unreachableTemporal } from '../platform/temporal-reach.ts'
import { type TemporalSettings, readTemporalSettings } from '../platform/temporal-settings.ts'
import { TRACE_HEADER, type TraceCarrier, formatTraceparent } from '../contracts/trace-context.ts'
import { workflowIds } from '../contracts/workflow-ids.ts'
import type { SpanAttributes } from '../platform/current-trace.ts'
import { type OpenSpan, type Traces, openTraces, readTraceSettings } from '../platform/traces.ts'

export interface ConnectOptions {
  /** `host:port`. @default LONGHAUL_TEMPORAL_ADDRESS, TEMPORAL_ADDRESS, the profile's, 127.0.0.1:7233 */
  address?: string
  /** @default LONGHAUL_NAMESPACE, TEMPORAL_NAMESPACE, the profile's, `default` */
  namespace?: string
  /** @default process.env */
  env?: NodeJS.ProcessEnv
}

/** A connection to Temporal that found its namespace. */
export interface LonghaulConnection {
  client: Client
  address: string
  namespace: string
  close(): Promise<void>
}

/** The run's name at each of its workflows. */
export const TRAIN_RUN = defineSearchAttributeKey('TrainRun', 'KEYWORD')

const CONNECT_TIMEOUT_MS = 3_000
/** A busy server that accepts connections gets a second, longer try; one that refuses them is named at once. */
const PATIENT_TIMEOUT_MS = 20_000
/** Bounds each call; a server that stalls is an error with a name, not a hang. */
export const CALL_TIMEOUT_MS = 10_000
/** Shorter than the server's own limit, for which a query without a worker would block. */
const ANSWER_MS = 3_000
/** A workflow task usually waits for some milliseconds. */
const FIRST_WAIT_MS = 50

/**
 * Connects with what the environment and Temporal's profile files say (`platform/temporal-settings.ts`), and finds the namespace.
 * Payloads are written and read with the keys of LONGHAUL_CODEC_KEYS, where it is set. Starts and steering are spans where
 * OpenTelemetry's variables name a collector; `close` sends the last ones, for two seconds at the longest.
 * @throws LonghaulError `Temporal.Unreachable`: after about three seconds where nothing listens or a certificate is wrong, after 30
 * where the server accepts connections and stays silent; `Config.Invalid` for settings that contradict each other;
 * `Config.NotFound` for an unknown namespace
 */
export async function connect({ env = process.env, ...override }: ConnectOptions = {}): Promise<LonghaulConnection> {
  const settings = readTemporalSettings(env, override)
  const how = { converter: dataConverterOf(env), traces: clientTraces(env) }
  try {
    return await open(settings, how, CONNECT_TIMEOUT_MS)
  } catch (cause) {
    if (isLonghaulError(cause)) throw cause
    const reach = await probeTemporal(settings)
    if (!reach.mayAnswerLater) throw unreachableTemporal(settings.address, reach, cause)
    return open(settings, how, PATIENT_TIMEOUT_MS).catch((last: unknown) => {
      throw isLonghaulError(last) ? last : unreachableTemporal(settings.address, reach, last)
    })
  }
}

async function open(
  { address, namespace, credentials }: TemporalSettings,
  { converter, traces }: { converter: ReturnType<typeof dataConverterOf>; traces: ClientTraces | null },
  timeoutMs: number,
): Promise<LonghaulConnection> {
  const connection = Connection.lazy({ address, connectTimeout: timeoutMs, ...credentials })
  try {
    await connection.ensureConnected()
    await connection.withDeadline(Date.now() + timeoutMs, () =>
      connection.workflowService.describeNamespace({ namespace }),
    )
  } catch (cause) {
    await connection.close()
    throw explainAnswer({ address, namespace }, cause) ?? cause
  }
  const client = new Client({
    connection,
    namespace,
    ...converter,
    ...(traces === null ? {} : { interceptors: traces.interceptors }),
  })
  const close = async (): Promise<void> => {
    await connection.close()
    await traces?.close()
  }
  return { client, address, namespace, close }
}

/**
 * Sends a query, and repeats it while the workflow has events that wait for their workflow task. @throws what the server answers, also
 * if that is the case for so long
 */
export async function askWorkflow<T>(
  { connection: { client }, workflowId }: { connection: LonghaulConnection; workflowId: string },
  query: string,
  withinMs = ANSWER_MS,
): Promise<T> {
  const until = Date.now() + withinMs
  const handle = client.workflow.getHandle(workflowId)
  for (let waitMs = FIRST_WAIT_MS; ; waitMs *= 2) {
    try {
      return await client.withDeadline(until, () => handle.query<T>(query))
    } catch (error) {
      if (!isEarlyQuery(error) || Date.now() + waitMs > until) throw error
      await sleep(waitMs)
    }
  }
}

/** Of a workflow's status: one that an operator has paused in Temporal goes on once it is unpaused. */
export function isOpen(status: string): boolean {
  return status === 'RUNNING' || status === 'PAUSED'
}

/** The same in the server's query language. Servers that cannot pause a workflow refuse its status by name. */
export const IS_OPEN = 'CloseTime IS NULL'

/** gRPC status 5. */
export function isNotFound(error: unknown): boolean {
  return (
    (error as { code?: unknown } | null)?.code === 5 ||
    (error as { name?: unknown } | null)?.name === 'WorkflowNotFoundError'
  )
}

/** Spans of what a client starts and steers. */
interface ClientTraces {
  interceptors: { workflow: WorkflowClientInterceptor[] }
  /** Sends what is left, for two seconds at the longest. */
  close(): Promise<void>
}

const CLOSE_MS = 2_000

/** Hosts, rounds of the watch and readings of records are no work of a run. */
const NO_RUNS = [workflowIds.host(''), workflowIds.watch(''), 'read/']

/**
 * None where the environment names no collector. OpenTelemetry's packages are loaded by the first call that has a span: commands that
 * only look at runs do not pay for them. @throws LonghaulError `Config.Invalid`
 */
function clientTraces(env: NodeJS.ProcessEnv): ClientTraces | null {
  if (readTraceSettings(env) === null) return null
  let opened: Promise<Traces | null> | null = null
  const within = async <T>(name: string, workflowId: string, call: (headers: Headers) => Promise<T>) => {
    if (NO_RUNS.some((prefix) => workflowId.startsWith(prefix))) return call({})
    opened ??= openTraces('client', { env, warn: (line) => process.stderr.write(`${line}\n`) })
    const traces = await opened
    const attributes: SpanAttributes = { 'temporal.workflow.id': workflowId }
    const span = traces?.startSpan({ name, kind: 'client', parent: null, attributes })
    return span === undefined ? call({}) : ended(span, () => call(headerOf(span)))
  }
  return {
    interceptors: {
      workflow: [
        {
          startWithDetails: (input, next) =>
            within(`StartWorkflow:${input.workflowType}`, input.options.workflowId, (headers) =>
              next({ ...input, headers: { ...input.headers, ...headers } }),
            ),
          startUpdate: (input, next) =>
            within(`UpdateWorkflow:${input.updateName}`, input.workflowExecution.workflowId, (headers) =>
              next({ ...input, headers: { ...input.headers, ...headers } }),
            ),
          signal: (input, next) =>
            within(`SignalWorkflow:${input.signalName}`, input.workflowExecution.workflowId, (headers) =>
              next({ ...input, headers: { ...input.headers, ...headers } }),
            ),
          cancel: (input, next) => within('CancelWorkflow', input.workflowExecution.workflowId, () => next(input)),
          terminate: (input, next) =>
            within('TerminateWorkflow', input.workflowExecution.workflowId, () => next(input)),
        },
      ],
    },
    close: async () => (await opened)?.close(CLOSE_MS),
  }
}

function headerOf({ context }: OpenSpan): Headers {
  const carrier: TraceCarrier = { traceparent: formatTraceparent(context) }
  return { [TRACE_HEADER]: defaultPayloadConverter.toPayload(carrier) }
}

/** A failed call (a taken name, an ended run) is reported by the class of its error: messages quote requests. */
async function ended<T>(span: OpenSpan, call: () => Promise<T>): Promise<T> {
  try {
    const result = await call()
    span.end()
    return result
  } catch (error) {
    span.end({ code: error instanceof Error ? error.name : 'unmapped' })
    throw error
  }
}
