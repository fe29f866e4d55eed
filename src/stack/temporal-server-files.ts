/** The config files of the Temporal server and its UI: JSON, since both read YAML. */
import { join } from 'node:path'
import { readJson, writeFileAtomically } from '../platform/files.ts'
import { sha256OfParts } from '../platform/hash.ts'
import type { StackPaths } from './paths.ts'
import type { DatabaseAddress } from './postgres/database-address.ts'
import { SQL_PLUGIN } from './postgres/schema.ts'

/** Fixed for the life of a database. Enough for ten thousand live episodes on one server, and for several servers later. */
export const HISTORY_SHARDS = 512
/**
 * With the default of four, which suits thousands of tasks a second, one request in thirteen only passes a task from one partition to
 * another. Workers still poll all four, because the database of an earlier version may hold tasks in each.
 */
export const ONE_PARTITION = { 'matching.numTaskqueueWritePartitions': 1 } as const
const SERVICES = ['frontend', 'history', 'matching', 'worker'] as const
type ServiceName = (typeof SERVICES)[number]
/** Per service; four times their sum stays below `max_connections` (`private-cluster.ts`). */
const CONNECTIONS = { runs: 30, visibility: 10 }

export interface ServerPorts {
  frontend: number
  /** Ports between the services, in the order in which `writeServerFiles` assigns them. */
  inner: number[]
}

export interface ServerFiles {
  /** Contains the database's password, so only the owner may read it. */
  config: string
  uiFolder: string
}

export function serverFiles({ dataDir }: Pick<StackPaths, 'dataDir'>): ServerFiles {
  return { config: join(dataDir, 'temporal', 'server.yaml'), uiFolder: join(dataDir, 'temporal', 'ui') }
}

/** Besides the frontend's gRPC port: one gRPC port per other service, and one membership port per service. */
export const INNER_PORTS = 2 * SERVICES.length - 1
/** The database stores service ports as signed 16-bit numbers; from 32,768 on the kernel also assigns ports to clients. */
const LOWEST_PORT = 17_000
const HIGHEST_PORT = 32_000
/** Enough to skip ports that others use. */
const TRIED_PORTS = 64

/** Ports in the order of preference: those of the last start, which the database lists for its servers, then some that differ from stack to
 *  stack. */
export async function usualInnerPorts(files: ServerFiles): Promise<number[]> {
  const last = await readJson<{ services?: Partial<Record<ServiceName, { rpc: Record<string, number> }>> }>(
    files.config,
  )
  const before = SERVICES.flatMap((name) => {
    const { grpcPort = 0, membershipPort = 0 } = last?.services?.[name]?.rpc ?? {}
    return name === 'frontend' ? [membershipPort] : [grpcPort, membershipPort]
  }).filter((port) => port > 0 && port <= HIGHEST_PORT)
  const places = (HIGHEST_PORT - LOWEST_PORT) / TRIED_PORTS
  const start =
    LOWEST_PORT + (Number.parseInt(sha256OfParts(files.config).slice(0, 8), 16) % Math.floor(places)) * TRIED_PORTS
  return [...before, ...Array.from({ length: TRIED_PORTS }, (_, index) => start + index)]
}

interface WriteServerFilesInput {
  files: ServerFiles
  address: DatabaseAddress
  ports: ServerPorts
  uiPort: number
  codecPort: number | null
  namespace: string
}

export async function writeServerFiles(input: WriteServerFilesInput): Promise<void> {
  const { files, address, ports, uiPort, codecPort, namespace } = input
  const inner = [...ports.inner]
  const rpc = (name: ServiceName): object => ({
    grpcPort: name === 'frontend' ? ports.frontend : inner.shift(),
    membershipPort: inner.shift(),
    bindOnIP: '127.0.0.1',
  })
  const store = (databaseName: string, connections: number): object => ({
    sql: {
      pluginName: SQL_PLUGIN,
      databaseName,
      connectAddr: `${address.host}:${address.port}`,
      connectProtocol: 'tcp',
      connectAttributes: address.attributes,
      user: address.user,
      password: address.password,
      maxConns: connections,
      maxIdleConns: connections,
      maxConnLifetime: '1h',
    },
  })
  const frontend = `127.0.0.1:${ports.frontend}`
  const dynamic = join(files.config, '..', 'dynamic.yaml')
  const config = {
    log: { stdout: true, level: 'warn' },
    persistence: {
      numHistoryShards: HISTORY_SHARDS,
      defaultStore: 'runs',
      visibilityStore: 'visibility',
      datastores: {
        runs: store(address.database, CONNECTIONS.runs),
        visibility: store(address.visibility, CONNECTIONS.visibility),
      },
    },
    global: { membership: { maxJoinDuration: '30s', broadcastAddress: '127.0.0.1' } },
    services: Object.fromEntries(SERVICES.map((name) => [name, { rpc: rpc(name) }])),
    clusterMetadata: {
      enableGlobalNamespace: false,
      failoverVersionIncrement: 10,
      masterClusterName: 'active',
      currentClusterName: 'active',
      clusterInformation: {
        active: { enabled: true, initialFailoverVersion: 1, rpcName: 'frontend', rpcAddress: frontend },
      },
    },
    dcRedirectionPolicy: { policy: 'noop' },
    publicClient: { hostPort: frontend },
    dynamicConfigClient: { filepath: dynamic, pollInterval: '60s' },
  }
  // As on the development server: commands and pages list runs more often than a shared server's default of ten times a second.
  const settings = Object.fromEntries(
    Object.entries({ 'frontend.namespaceRPS.visibility': 100, ...ONE_PARTITION }).map(([name, value]) => [
      name,
      [{ value }],
    ]),
  )
  const ui = {
    temporalGrpcAddress: frontend,
    host: '127.0.0.1',
    port: uiPort,
    enableUi: true,
    defaultNamespace: namespace,
    disableNewsFetch: true,
    hideLogs: true,
    // Without TLS, a browser rejects secure cookies.
    cors: { cookieInsecure: true },
    ...(codecPort === null ? {} : { codec: { endpoint: `http://127.0.0.1:${codecPort}` } }),
  }
  const write = (path: string, value: object): Promise<void> =>
    writeFileAtomically(path, `${JSON.stringify(value, null, 2)}\n`, 0o600)
  await write(files.config, config)
  await write(dynamic, settings)
  await write(join(files.uiFolder, 'stack.yaml'), ui)
}
