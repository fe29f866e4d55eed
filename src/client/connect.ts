import { Client, Connection } from '@temporalio/client'
import { isLonghaulError, LonghaulError } from '../contracts/errors.ts'
import { dataConverterOf } from '../platform/data-converter.ts'
import { probeTemporal } from '../platform/temporal-reach.ts'
import { readTemporalSettings, type TemporalSettings } from '../platform/temporal-settings.ts'
import { type ClientTraces, clientTraces } from './traces.ts'

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

const CONNECT_TIMEOUT_MS = 3_000
/** A busy server that accepts connections gets a second, longer try; one that refuses them is named at once. */
const PATIENT_TIMEOUT_MS = 20_000
/** Bounds each call; a server that stalls is an error with a name, not a hang. */
export const CALL_TIMEOUT_MS = 10_000

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
    const { mayAnswerLater, finding } = await probeTemporal(settings)
    if (!mayAnswerLater) throw unreachable(settings.address, finding, cause)
    return open(settings, how, PATIENT_TIMEOUT_MS).catch((last: unknown) => {
      throw isLonghaulError(last) ? last : unreachable(settings.address, finding, last)
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
    if (isNotFound(cause)) throw unknownNamespace(namespace, address)
    if (isRefusal(cause)) throw refused(address, namespace, cause)
    throw cause
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

function unreachable(address: string, finding: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Temporal.Unreachable',
    message: `No Temporal server answers at ${address}: ${finding}. Start the local stack with "longhaul up", or set TEMPORAL_ADDRESS or TEMPORAL_PROFILE (docs/operations.md, "Another Temporal server")`,
    cause,
  })
}

function refused(address: string, namespace: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Temporal.Refused',
    message: `The Temporal server at ${address} refuses this client access to the namespace ${namespace}: set TEMPORAL_API_KEY, or a client certificate, that is valid for this namespace`,
    cause,
  })
}

function unknownNamespace(namespace: string, address: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `The Temporal server at ${address} has no namespace ${namespace}. Set LONGHAUL_NAMESPACE or TEMPORAL_NAMESPACE, or create it: temporal operator namespace create ${namespace}`,
  })
}

/** gRPC status 7 and 16: permission denied, unauthenticated. */
function isRefusal(error: unknown): boolean {
  return [7, 16].includes(grpcStatus(error) ?? 0)
}

/** gRPC status 5. */
export function isNotFound(error: unknown): boolean {
  return (
    (error as { code?: unknown } | null)?.code === 5 ||
    (error as { name?: unknown } | null)?.name === 'WorkflowNotFoundError'
  )
}

/** Of a failed call, wherever the SDK puts it; null for anything else. */
export function grpcStatus(error: unknown): number | null {
  for (let link: unknown = error; link instanceof Error; link = link.cause) {
    const { code } = link as { code?: unknown }
    if (typeof code === 'number') return code
  }
  return null
}
