import { readFile } from 'node:fs/promises'
import { Client, Connection, type ConnectionOptions } from '@temporalio/client'
import { LonghaulError } from '../contracts/errors.ts'

export interface ConnectOptions {
  /** `host:port`. @default LONGHAUL_TEMPORAL_ADDRESS, TEMPORAL_ADDRESS, 127.0.0.1:7233 */
  address?: string
  /** @default LONGHAUL_NAMESPACE, TEMPORAL_NAMESPACE, `default` */
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

// Together below five seconds: a person or a CI job should not wait longer to learn that nothing listens.
const CONNECT_TIMEOUT_MS = 3_000
const NAMESPACE_TIMEOUT_MS = 1_500
/** Bounds each call; a server that stalls is an error with a name, not a hang. */
export const CALL_TIMEOUT_MS = 10_000

/**
 * Connects with what the environment says. TLS and keys are read from TEMPORAL_API_KEY, TEMPORAL_TLS (`true`),
 * TEMPORAL_TLS_CLIENT_CERT_PATH with TEMPORAL_TLS_CLIENT_KEY_PATH, TEMPORAL_TLS_SERVER_CA_CERT_PATH and
 * TEMPORAL_TLS_SERVER_NAME: the names that Temporal's own tools use.
 * @throws LonghaulError `Temporal.Unreachable` after at most five seconds; `Config.NotFound` for an unknown namespace
 */
export async function connect(options: ConnectOptions = {}): Promise<LonghaulConnection> {
  const env = options.env ?? process.env
  const address = options.address ?? said(env, 'LONGHAUL_TEMPORAL_ADDRESS') ?? said(env, 'TEMPORAL_ADDRESS')
  const namespace = options.namespace ?? said(env, 'LONGHAUL_NAMESPACE') ?? said(env, 'TEMPORAL_NAMESPACE') ?? 'default'
  const target = address ?? '127.0.0.1:7233'
  const connection = await open(target, await credentials(env))
  try {
    await connection.withDeadline(Date.now() + NAMESPACE_TIMEOUT_MS, () =>
      connection.workflowService.describeNamespace({ namespace }),
    )
  } catch (cause) {
    await connection.close()
    throw isNotFound(cause) ? unknownNamespace(namespace, target) : unreachable(target, cause)
  }
  return { client: new Client({ connection, namespace }), address: target, namespace, close: () => connection.close() }
}

async function open(address: string, secrets: ConnectionOptions): Promise<Connection> {
  try {
    return await Connection.connect({ address, connectTimeout: CONNECT_TIMEOUT_MS, ...secrets })
  } catch (cause) {
    throw unreachable(address, cause)
  }
}

async function credentials(env: NodeJS.ProcessEnv): Promise<ConnectionOptions> {
  const apiKey = said(env, 'TEMPORAL_API_KEY')
  const certPath = said(env, 'TEMPORAL_TLS_CLIENT_CERT_PATH')
  const keyPath = said(env, 'TEMPORAL_TLS_CLIENT_KEY_PATH')
  const caPath = said(env, 'TEMPORAL_TLS_SERVER_CA_CERT_PATH')
  const serverName = said(env, 'TEMPORAL_TLS_SERVER_NAME')
  if ((certPath === undefined) !== (keyPath === undefined)) {
    throw new LonghaulError({
      code: 'Config.Invalid',
      message: 'Expected TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH together, got one of them',
    })
  }
  const isSecured = certPath !== undefined || caPath !== undefined || serverName !== undefined
  const wantsTls = isSecured || apiKey !== undefined || said(env, 'TEMPORAL_TLS') === 'true'
  if (!wantsTls) return {}
  const tls = {
    ...(serverName === undefined ? {} : { serverNameOverride: serverName }),
    ...(caPath === undefined ? {} : { serverRootCACertificate: await secret(caPath) }),
    ...(certPath === undefined || keyPath === undefined
      ? {}
      : { clientCertPair: { crt: await secret(certPath), key: await secret(keyPath) } }),
  }
  return { tls, ...(apiKey === undefined ? {} : { apiKey }) }
}

async function secret(path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (cause) {
    throw new LonghaulError({ code: 'Config.Invalid', message: `Expected a readable TLS file at ${path}`, cause })
  }
}

function said(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env[name] === '' ? undefined : env[name]
}

function unreachable(address: string, cause: unknown): LonghaulError {
  return new LonghaulError({
    code: 'Temporal.Unreachable',
    message: `No Temporal server answers at ${address}. Start the local stack with "longhaul up", or set TEMPORAL_ADDRESS (and TEMPORAL_API_KEY or TEMPORAL_TLS_… where it needs them)`,
    cause,
  })
}

function unknownNamespace(namespace: string, address: string): LonghaulError {
  return new LonghaulError({
    code: 'Config.NotFound',
    message: `The Temporal server at ${address} has no namespace ${namespace}. Set LONGHAUL_NAMESPACE, or make it: temporal operator namespace create ${namespace}`,
  })
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
