import type { GivenSettings } from './given-settings.ts'
import { dirname } from 'node:path'
import { fileAgeMs, readJson } from '../platform/files.ts'
import type { StackFacts } from './environment.ts'
import { isAlive, isThisProcessSpace, type ProcessIdentity, type ProcessSpace } from '../platform/processes.ts'
import type { Service } from './services.ts'
import { stackPaths } from './paths.ts'

/** What the supervisor runs: `up` writes it, the supervisor reads it once. */
export interface StackConfig {
  facts: StackFacts
  /** Hash of the code that the services run; another hash requires a restart. */
  fingerprint: string
  /** Absent in stacks of earlier versions. */
  given?: GivenSettings
  /** Whether the stack owns, and so stops, Temporal and the engine. */
  ownsTemporal: boolean
  ownsEngine: boolean
  runDir: string
  logsDir: string
  recordFile: string
  /** `FIRST_SERVICES` are started before all others. */
  services: Service[]
}

type ServiceState = 'starting' | 'ready' | 'restarting' | 'stopped'

export interface ServiceRecord {
  name: string
  state: ServiceState
  process: ProcessIdentity | null
  restarts: number
  /** How the last process ended, as text. */
  lastExit: string | null
  log: string
  /** For a service that SIGTERM does not end in time. */
  stopSignal?: 'SIGTERM' | 'SIGINT'
}

/** `stack.json`: the running services. The supervisor writes it atomically after each change. */
export interface StackRecord {
  version: 1
  startedAt: string
  /** Where its processes run; absent in records of earlier versions. */
  machine?: ProcessSpace
  supervisor: ProcessIdentity
  fingerprint: string
  given?: GivenSettings
  ownsTemporal: boolean
  ownsEngine: boolean
  facts: StackFacts
  runDir: string
  services: ServiceRecord[]
}

export function readStackRecord(recordFile: string): Promise<StackRecord | null> {
  return readJson<StackRecord>(recordFile)
}

/** How often the supervisor writes its record, for machines that cannot look up its processes. */
export const STACK_BEAT_MS = 20_000
/** A supervisor of another machine that has been silent for so long counts as dead. */
const SILENT_MS = 120_000

/** A stack that another machine runs, or has run, from the same data directory: a home that machines share, or a volume of containers. */
export interface StackElsewhere {
  host: string
  /** Since it last wrote its record. */
  silentMs: number
  isLiving: boolean
}

/** @returns null if the record is of this machine, so that its processes can be looked up */
export async function findElsewhere(record: StackRecord, recordFile: string): Promise<StackElsewhere | null> {
  const { machine } = record
  if (machine === undefined || isThisProcessSpace(machine)) return null
  const silentMs = (await fileAgeMs(recordFile, dirname(recordFile))) ?? Infinity
  return { host: machine.host, silentMs, isLiving: silentMs <= SILENT_MS }
}

export function describeElsewhere(name: string, { host, silentMs, isLiving }: StackElsewhere): string {
  const seconds = Math.round(silentMs / 1000)
  return isLiving
    ? `the stack "${name}" of this data directory runs on ${host} (last sign of life ${seconds} s ago)`
    : `the stack "${name}" of this data directory was started on ${host}, which has been silent for ${seconds} s`
}

export function livingServices(record: StackRecord): (ServiceRecord & { process: ProcessIdentity })[] {
  return record.services.flatMap((service) =>
    service.process !== null && isAlive(service.process) ? [{ ...service, process: service.process }] : [],
  )
}

interface StatusOptions {
  name?: string | undefined
  home?: string | undefined
}

interface ServiceStatus {
  name: string
  /** `gone`: recorded as running, but its process does not exist. */
  state: ServiceState | 'gone'
  pid: number | null
  restarts: number
  lastExit: string | null
  log: string
}

export type StackStatus =
  | { state: 'down'; name: string; elsewhere?: StackElsewhere }
  | { state: 'up' | 'degraded'; name: string; record: StackRecord; services: ServiceStatus[] }

/** State of the stack on this machine, checked against its processes. `degraded`: a service is missing or starting, or the supervisor is dead. */
export async function stackStatus(options: StatusOptions = {}): Promise<StackStatus> {
  const paths = stackPaths(options)
  const record = await readStackRecord(paths.recordFile)
  if (record === null) return { state: 'down', name: paths.name }
  const elsewhere = await findElsewhere(record, paths.recordFile)
  if (elsewhere !== null) return { state: 'down', name: paths.name, elsewhere }
  const services = record.services.map((service): ServiceStatus => {
    const pid = service.process !== null && isAlive(service.process) ? service.process.pid : null
    const { name, restarts, lastExit, log } = service
    const state = service.process !== null && pid === null ? 'gone' : service.state
    return { name, state, pid, restarts, lastExit, log }
  })
  const isSupervised = isAlive(record.supervisor)
  if (!isSupervised && services.every(({ pid }) => pid === null)) return { state: 'down', name: paths.name }
  const isWhole = isSupervised && services.every(({ state }) => state === 'ready')
  return { state: isWhole ? 'up' : 'degraded', name: paths.name, record, services }
}
