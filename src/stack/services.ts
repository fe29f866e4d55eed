import { join } from 'node:path'

import { QUEUES } from '../contracts/workflow-ids.ts'
import { hostIdentity } from '../platform/processes.ts'
import { stackEnvironment, stackHostId, type StackFacts } from './environment.ts'
import { moduleFile, packageFile } from './paths.ts'
import { clusterService, type PrivateCluster } from './postgres/private-cluster.ts'
import type { TemporalCli } from './setup/temporal-cli.ts'
import type { TemporalServer } from './setup/temporal-server.ts'
import { ONE_PARTITION, type ServerFiles } from './temporal-server-files.ts'
import { searchAttributes } from '../platform/search-attributes.ts'

export const WORKER_ROLES = ['control', 'sandbox', 'trainer', 'artifacts'] as const
export type WorkerRole = (typeof WORKER_ROLES)[number]

/** How the supervisor checks that a service is ready. */
export type Readiness =
  | { kind: 'tcp'; host: string; port: number }
  | { kind: 'http'; url: string }
  /** The service's process polls one of the queues. */
  | { kind: 'poller'; queues: readonly string[] }
  /** The program exits with 0. */
  | { kind: 'program'; command: string; args: string[] }
  /** All services of a Temporal server answer: the frontend and those that it calls. */
  | { kind: 'server' }

export interface Service {
  name: string
  command: string
  args: string[]
  env: Record<string, string>
  ready: Readiness
  /** Time between the stop signal and SIGKILL. */
  graceMs: number
  /** @default SIGTERM */
  stopSignal?: 'SIGTERM' | 'SIGINT'
}

/** Started before all others, one by one in this order; stopped after them, in reverse order. */
export const FIRST_SERVICES: readonly string[] = ['postgres', 'temporal']

export interface TemporalServiceInput {
  cli: TemporalCli
  dataDir: string
  port: number
  uiPort: number
  namespace: string
  /** Port of the codec server that decodes payloads for the UI; null if payloads are not encrypted. */
  codecPort: number | null
}

/** The development server with a database file and its UI. */
export function temporalService({ cli, dataDir, port, uiPort, namespace, codecPort }: TemporalServiceInput): Service {
  const attributes = Object.entries(searchAttributes()).flatMap(([name, type]) => [
    '--search-attribute',
    `${name}=${type}`,
  ])
  // The development server cannot migrate another version's database, so each version gets its own. All share the artifacts.
  const database = join(dataDir, `temporal-${cli.serverVersion}.db`)
  return {
    name: 'temporal',
    command: cli.path,
    args: [
      ['server', 'start-dev', '--db-filename', database, '--namespace', namespace],
      ['--ip', '127.0.0.1', '--port', String(port), '--ui-port', String(uiPort), '--ui-disable-news-fetch'],
      ['--log-level', 'warn'],
      Object.entries(ONE_PARTITION).flatMap(([name, value]) => ['--dynamic-config-value', `${name}=${value}`]),
      codecPort === null ? [] : ['--ui-codec-endpoint', `http://127.0.0.1:${codecPort}`],
      attributes,
    ].flat(),
    env: {},
    ready: { kind: 'tcp', host: '127.0.0.1', port },
    graceMs: 10_000,
  }
}

/** The database of this stack. SIGINT closes its connections; SIGTERM would wait for an operator's psql. */
export function postgresService(cluster: PrivateCluster): Service {
  const { command, args, isReady } = clusterService(cluster)
  const [ready = '', ...readyArgs] = isReady
  return {
    name: 'postgres',
    command,
    args,
    env: {},
    ready: { kind: 'program', command: ready, args: readyArgs },
    graceMs: 30_000,
    stopSignal: 'SIGINT',
  }
}

/** The server with a PostgreSQL database, for clients on this machine. */
export function temporalServerService({ server, files }: { server: TemporalServer; files: ServerFiles }): Service {
  return {
    name: 'temporal',
    command: server.server,
    args: ['--config-file', files.config, '--allow-no-auth', 'start'],
    env: {},
    ready: { kind: 'server' },
    graceMs: 20_000,
  }
}

/** The UI as a separate process; only the development server includes one. */
export function temporalUiService(input: { server: TemporalServer; files: ServerFiles; port: number }): Service {
  const { server, files, port } = input
  return {
    name: 'temporal-ui',
    command: server.ui,
    args: ['--root', files.uiFolder, '--config', '.', '--env', 'stack', 'start'],
    env: {},
    ready: { kind: 'tcp', host: '127.0.0.1', port },
    graceMs: 5_000,
  }
}

/** Decodes payloads for the UI of this stack and for no other origin. */
export function codecService({ facts, port, uiPort }: { facts: StackFacts; port: number; uiPort: number }): Service {
  const origins = ['127.0.0.1', 'localhost'].map((host) => `http://${host}:${uiPort}`)
  return {
    name: 'codec-server',
    command: process.execPath,
    args: [packageFile('bin/longhaul.mjs'), 'codec-server', '--port', String(port), '--origin', ...origins],
    env: stackEnvironment(facts),
    ready: { kind: 'tcp', host: '127.0.0.1', port },
    graceMs: 5_000,
  }
}

export interface PolicyServiceInput {
  facts: StackFacts & { python: string }
  port: number
  stateDir: string
}

export function policyService({ facts, port, stateDir }: PolicyServiceInput): Service {
  return {
    name: 'policy-server',
    command: facts.python,
    args: ['-m', 'longhaul_trainer', 'serve', '--host', '127.0.0.1', '--port', String(port), '--state', stateDir],
    env: stackEnvironment(facts),
    ready: { kind: 'http', url: `${facts.policyUrl}/health` },
    graceMs: 10_000,
  }
}

/** One process per role, as on a cluster. */
export function workerService({ role, facts }: { role: WorkerRole; facts: StackFacts }): Service {
  return {
    name: `worker-${role}`,
    command: process.execPath,
    args: [packageFile('bin/longhaul.mjs'), 'worker', '--role', role],
    env: { ...stackEnvironment(facts), ...metricsAddressOf(role) },
    // A drained host polls only its own queue.
    ready: {
      kind: 'poller',
      queues: role === 'sandbox' ? [QUEUES.sandbox, hostIdentity(stackHostId(facts.name)).hostQueue] : [QUEUES[role]],
    },
    // Workers stop gracefully within 5 s, or forcibly after 30 s; a worker that lives longer hangs.
    graceMs: 35_000,
  }
}

/** LONGHAUL_METRICS_ADDRESS names one port, but each role is a process: the roles take that port and the next ones. */
function metricsAddressOf(role: WorkerRole): Record<string, string> {
  const address = process.env['LONGHAUL_METRICS_ADDRESS'] ?? ''
  const [, host, port] = /^(.*):(\d+)$/.exec(address) ?? []
  // The worker rejects an invalid address and shows the expected form.
  if (host === undefined) return {}
  return { LONGHAUL_METRICS_ADDRESS: `${host}:${Number(port) + WORKER_ROLES.indexOf(role)}` }
}

export function supervisorModule(): string {
  return moduleFile('stack/supervise')
}
